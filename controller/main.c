/* controller: stub */
int main(void) { return 0; }
