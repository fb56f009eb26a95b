/* Reads the command line. */
#include "controller/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX 86400

static const struct option_row *find_row(const struct option_row *rows, const char *name, size_t len)
{
	for (const struct option_row *r = rows; r->name != NULL; r++)
		if (strlen(r->name) == len && memcmp(r->name, name, len) == 0)
			return r;
	return NULL;
}

static const struct option_row *find_letter(const struct option_row *rows, char letter)
{
	for (const struct option_row *r = rows; r->name != NULL; r++)
		if (r->letter == letter && letter != '\0')
			return r;
	return NULL;
}

static int add_value(struct arguments *a, const struct option_row *row, const char *value, struct err *err)
{
	if (a->nvalues == ARGUMENTS_MAX_VALUES)
		return err_set(err, EINVAL, "too many options");
	a->values[a->nvalues++] = (struct option_value){ row, value };
	return 0;
}

static int add_deployment(struct arguments *a, const char *name, const char *value, struct err *err)
{
	if (a->ndeployment == 32)
		return err_set(err, EINVAL, "too many options");
	a->deployment_name[a->ndeployment] = name;
	a->deployment[a->ndeployment++].value = value;
	return 0;
}

/* One "--name[=value]"; *i moves over a value of its own. */
static int read_long(struct arguments *a, const struct option_row *rows, int *i, int argc, char **argv, struct err *err)
{
	char *name = argv[*i] + 2;
	char *equals = strchr(name, '=');
	size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
	const struct option_row *row = find_row(rows, name, len);
	const char *value = equals != NULL ? equals + 1 : NULL;
	char copy[48];

	if (len >= sizeof(copy))
		return err_set(err, EINVAL, "no option %.40s", argv[*i]);
	memcpy(copy, name, len);
	copy[len] = '\0';
	bool is_file = strcmp(copy, "config") == 0;
	bool takes = row != NULL ? row->type != OPTION_SWITCH : is_file || config_option_takes_value(copy);
	if (takes && value == NULL) {
		if (*i + 1 >= argc)
			return err_set(err, EINVAL, "--%s needs a value", copy);
		value = argv[++*i];
	} else if (!takes && value != NULL) {
		return err_set(err, EINVAL, "--%s takes no value", copy);
	}
	if (row != NULL)
		return add_value(a, row, value, err);
	if (is_file) {
		a->config_file = value;
		return 0;
	}
	/* Without its value the name stands alone in argv: config_set_option() is what knows it. */
	if (equals != NULL)
		*equals = '\0';
	return add_deployment(a, name, value, err);
}

static int read_letters(struct arguments *a, const struct option_row *rows, int *i, int argc, char **argv,
	struct err *err)
{
	for (const char *p = argv[*i] + 1; *p != '\0'; p++) {
		const struct option_row *row = find_letter(rows, *p);

		if (row == NULL)
			return err_set(err, EINVAL, "no option -%c", *p);
		if (row->type == OPTION_SWITCH) {
			if (add_value(a, row, NULL, err) != 0)
				return -1;
			continue;
		}
		const char *value = p[1] != '\0' ? p + 1 : *i + 1 < argc ? argv[++*i] : NULL;
		if (value == NULL)
			return err_set(err, EINVAL, "-%c needs a value", *p);
		return add_value(a, row, value, err);
	}
	return 0;
}

int arguments_read(struct arguments *a, const struct option_row *rows, int argc, char **argv, struct err *err)
{
	*a = (struct arguments){ .nwords = 0 };
	for (int i = 1; i < argc; i++) {
		int rc;

		if (strcmp(argv[i], "--") == 0) {
			a->rest = argv + i + 1;
			a->nrest = argc - i - 1;
			return 0;
		}
		if (argv[i][0] == '-' && argv[i][1] == '-')
			rc = read_long(a, rows, &i, argc, argv, err);
		else if (argv[i][0] == '-' && argv[i][1] != '\0')
			rc = read_letters(a, rows, &i, argc, argv, err);
		else if (a->nwords == ARGUMENTS_MAX_WORDS)
			rc = err_set(err, EINVAL, "too many arguments: \"%.60s\"", argv[i]);
		else {
			a->words[a->nwords++] = argv[i];
			rc = 0;
		}
		if (rc != 0)
			return -1;
	}
	return 0;
}

bool arguments_has(const struct arguments *a, const char *name)
{
	for (unsigned i = 0; i < a->nvalues; i++)
		if (strcmp(a->values[i].row->name, name) == 0)
			return true;
	return false;
}

const char *arguments_text(const struct arguments *a, const char *name)
{
	const char *found = NULL;

	for (unsigned i = 0; i < a->nvalues; i++)
		if (strcmp(a->values[i].row->name, name) == 0)
			found = a->values[i].value;
	return found;
}

const char *arguments_item(const struct arguments *a, const char *name, unsigned n)
{
	for (unsigned i = 0; i < a->nvalues; i++)
		if (strcmp(a->values[i].row->name, name) == 0 && n-- == 0)
			return a->values[i].value;
	return NULL;
}

int arguments_config(const struct arguments *a, struct config *c, struct err *err)
{
	const char *environment = getenv("CAPYBARA_EXTENSION_CONFIG");

	if (environment != NULL && config_load_environment(c, slice_str(environment), err) != 0)
		return -1;
	if (a->config_file != NULL && config_load_file(c, a->config_file, err) != 0)
		return -1;
	for (unsigned i = 0; i < a->ndeployment; i++) {
		if (config_set_option(c, a->deployment_name[i], a->deployment[i].value, err) != 0)
			return -1;
	}
	return config_finish(c, err);
}

int arguments_number(const char *option, const char *text, long long max, long long *out, struct err *err)
{
	long long value = 0;

	for (const char *p = text; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || value > max / 10)
			return err_set(err, EINVAL, "--%s must be a number from 0 to %lld", option, max);
		value = value * 10 + (*p - '0');
	}
	if (text[0] == '\0' || value > max)
		return err_set(err, EINVAL, "--%s must be a number from 0 to %lld", option, max);
	*out = value;
	return 0;
}

int arguments_seconds(const struct arguments *a, const char *option, long long min, int64_t *ms, struct err *err)
{
	const char *text = arguments_text(a, option);
	long long seconds;

	if (text == NULL)
		return 0;
	if (arguments_number(option, text, SECONDS_MAX, &seconds, err) != 0)
		return -1;
	if (seconds < min)
		return err_set(err, EINVAL, "--%s must be a number from %lld to %d", option, min, SECONDS_MAX);
	*ms = seconds * 1000;
	return 0;
}
