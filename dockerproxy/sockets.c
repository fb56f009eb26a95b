/* The master's listening sockets: a small table by address, changed in two steps. */
#include "dockerproxy/sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "libgate/listen.h"
#include "libgate/log.h"

#define SOCKETS_MAX (2 * (PROXY_MAX_LISTEN + 1)) /* those of two configurations at once */
#define ADMIN_MODE 0600

struct entry {
	char *address; /* path or ADDRESS:PORT; NULL: free */
	bool is_unix;
	int fd;
	dev_t dev; /* of a unix socket's file, to recognise it as ours */
	ino_t ino;
	mode_t mode, next_mode;
	uid_t uid, next_uid;
	gid_t gid, next_gid;
	bool serving; /* named by the configuration in force */
	bool prepared; /* named by the one that is being prepared */
};

struct sockets {
	struct entry entries[SOCKETS_MAX];
};

struct wanted {
	const char *address;
	bool is_unix;
	mode_t mode;
	uid_t uid;
	gid_t gid;
};

struct sockets *sockets_new(void)
{
	return calloc(1, sizeof(struct sockets));
}

static void close_entry(struct entry *e)
{
	struct stat st;

	/* Another instance may have replaced the file meanwhile. */
	if (e->is_unix && lstat(e->address, &st) == 0 && st.st_dev == e->dev && st.st_ino == e->ino)
		unlink(e->address);
	close(e->fd);
	free(e->address);
	*e = (struct entry){ .address = NULL };
}

void sockets_free(struct sockets *s)
{
	if (s == NULL)
		return;
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (s->entries[i].address != NULL)
			close_entry(&s->entries[i]);
	free(s);
}

static struct entry *find(struct sockets *s, const struct wanted *w)
{
	struct entry *vacant = NULL;

	for (int i = 0; i < SOCKETS_MAX; i++) {
		struct entry *e = &s->entries[i];

		if (e->address == NULL)
			vacant = vacant != NULL ? vacant : e;
		else if (e->is_unix == w->is_unix && strcmp(e->address, w->address) == 0)
			return e;
	}
	return vacant;
}

static int open_entry(struct entry *e, const struct wanted *w, struct err *err)
{
	struct stat st;

	e->fd = w->is_unix ? listen_unix(w->address, w->mode, w->uid, w->gid, err) : listen_tcp(w->address, err);
	if (e->fd < 0)
		return -1;
	e->address = strdup(w->address);
	if (e->address == NULL) {
		close(e->fd);
		return err_set(err, ENOMEM, "listener %s: out of memory", w->address);
	}
	e->is_unix = w->is_unix;
	if (w->is_unix && lstat(w->address, &st) == 0) {
		e->dev = st.st_dev;
		e->ino = st.st_ino;
	}
	e->mode = w->mode;
	e->uid = w->uid;
	e->gid = w->gid;
	return 0;
}

static int prepare(struct sockets *s, const struct wanted *w, int *fd, struct err *err)
{
	struct entry *e = find(s, w);

	if (e == NULL)
		return err_set(err, ENOSPC, "too many listening sockets");
	if (e->address != NULL && e->prepared)
		return err_set(err, EEXIST, "listener %s is named twice", w->address);
	if (e->address == NULL && open_entry(e, w, err) < 0)
		return -1;
	e->prepared = true;
	e->next_mode = w->mode;
	e->next_uid = w->uid;
	e->next_gid = w->gid;
	*fd = e->fd;
	return 0;
}

static struct wanted wanted_of(const struct proxy_endpoint *at, mode_t mode, uid_t uid, gid_t gid)
{
	return (struct wanted){ .address = at->unix_path != NULL ? at->unix_path : at->tcp,
		.is_unix = at->unix_path != NULL,
		.mode = mode,
		.uid = uid,
		.gid = gid };
}

int sockets_prepare(struct sockets *s, const struct proxy_conf *conf, int *fds, int *admin_fd, struct err *err)
{
	struct wanted w;

	for (unsigned i = 0; i < conf->nlisten; i++) {
		const struct proxy_listen *l = &conf->listen[i];

		w = wanted_of(&l->at, l->mode, l->uid, l->gid);
		if (prepare(s, &w, &fds[i], err) < 0)
			goto failed;
	}
	*admin_fd = -1;
	w = wanted_of(&conf->admin, ADMIN_MODE, (uid_t)-1, (gid_t)-1);
	if (w.address != NULL && prepare(s, &w, admin_fd, err) < 0)
		goto failed;
	return 0;
failed:
	sockets_abort(s);
	return -1;
}

/* A reload may change who may open a socket that stays. */
static void change_rights(struct entry *e)
{
	if (!e->is_unix || (e->mode == e->next_mode && e->uid == e->next_uid && e->gid == e->next_gid))
		return;
	if (lchown(e->address, e->next_uid, e->next_gid) < 0 || chmod(e->address, e->next_mode) < 0)
		log_error("rights of %s cannot be changed: %s", e->address, strerror(errno));
	e->mode = e->next_mode;
	e->uid = e->next_uid;
	e->gid = e->next_gid;
}

void sockets_commit(struct sockets *s)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		struct entry *e = &s->entries[i];

		if (e->address == NULL)
			continue;
		if (!e->prepared) {
			close_entry(e);
			continue;
		}
		change_rights(e);
		e->serving = true;
		e->prepared = false;
	}
}

void sockets_abort(struct sockets *s)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		struct entry *e = &s->entries[i];

		if (e->address != NULL && !e->serving)
			close_entry(e);
		else
			e->prepared = false;
	}
}
