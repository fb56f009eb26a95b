/* Runs a harness over the files of its corpus: corpus/NAME for a program fuzz_NAME, or the files and directories named. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "libgate/util.h"

#define INPUT_MAX (1 << 20)

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");

	if (f == NULL) {
		perror(path);
		return -1;
	}
	uint8_t *all = malloc(INPUT_MAX);
	size_t n = all != NULL ? fread(all, 1, INPUT_MAX, f) : 0;
	fclose(f);
	/* An exact copy: AddressSanitizer sees a read past the end. */
	uint8_t *input = all != NULL ? realloc(all, n > 0 ? n : 1) : NULL;
	if (input == NULL) {
		free(all);
		fprintf(stderr, "%s: out of memory\n", path);
		return -1;
	}
	/* Should it abort, the last line names the input. */
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(input, n);
	free(input);
	return 1;
}

/* How many inputs were run, -1 on failure. */
static int replay(const char *path)
{
	struct stat st;
	struct dirent *entry;
	int total = 0;

	if (stat(path, &st) != 0) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		perror(path);
		return -1;
	}
	while (total >= 0 && (entry = readdir(dir)) != NULL) {
		auto_free char *name = NULL;

		if (entry->d_name[0] == '.')
			continue;
		int n = asprintf(&name, "%s/%s", path, entry->d_name) < 0 ? -1 : replay(name);
		total = n < 0 ? -1 : total + n;
	}
	closedir(dir);
	return total;
}

int main(int argc, char **argv)
{
	const char *srcdir = getenv("srcdir");
	const char *program = strstr(argv[0], "fuzz_");
	auto_free char *corpus = NULL;
	int total = 0;

	for (int i = 1; i < argc && total >= 0; i++) {
		int n = replay(argv[i]);

		total = n < 0 ? -1 : total + n;
	}
	if (argc < 2 && program != NULL) {
		/* The last "fuzz_": the directory may be called so as well. */
		for (const char *p = program; p != NULL; p = strstr(p + 1, "fuzz_"))
			program = p;
		if (asprintf(&corpus, "%s/tests/fuzz/corpus/%s", srcdir != NULL ? srcdir : ".", program + 5) < 0)
			return 2;
		total = replay(corpus);
	}
	printf("%s: %d inputs\n", argv[0], total);
	return total > 0 ? 0 : 1;
}
