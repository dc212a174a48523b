// What of DPDK has to be C: its inline functions, called for whole bursts, and its start-up.
//
// Nothing here keeps a packet: what a burst has received belongs to the caller until it is sent or given back.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memzone.h>
#include <rte_mempool.h>
#include <rte_version.h>

// A burst is not longer: as ffi.rs says.
#define BURST 256
// Bytes of an mbuf's headroom that the packet's frame does not show: what remains is Onefold's own headroom.
#define SKIP 64
#define LINE 64
#define LOG_SIZE 65536

// ---- what DPDK says ----------------------------------------------------------------------------------------------

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_SIZE];
static size_t log_length;
static int log_loud;

static void log_add(const char *text, size_t n)
{
	pthread_mutex_lock(&log_lock);
	if (n > LOG_SIZE) {
		text += n - LOG_SIZE;
		n = LOG_SIZE;
	}
	if (log_length + n > LOG_SIZE) {
		size_t drop = log_length + n - LOG_SIZE;
		memmove(log_text, log_text + drop, log_length - drop);
		log_length -= drop;
	}
	memcpy(log_text + log_length, text, n);
	log_length += n;
	pthread_mutex_unlock(&log_lock);
}

static ssize_t log_write(void *cookie, const char *text, size_t n)
{
	(void)cookie;
	log_add(text, n);
	if (log_loud && write(STDERR_FILENO, text, n) < 0)
		return (ssize_t)n;
	return (ssize_t)n;
}

// Takes what was said since the last time; how many bytes.
size_t of_log_take(char *to, size_t room)
{
	pthread_mutex_lock(&log_lock);
	size_t n = RTE_MIN(log_length, room);
	memcpy(to, log_text + (log_length - n), n);
	log_length = 0;
	pthread_mutex_unlock(&log_lock);
	return n;
}

// Standard output and error while the EAL starts: it prints there besides its log, and the output is for results.
struct caught {
	int file, out, err;
};

static void catch_output(struct caught *c)
{
	fflush(stdout);
	fflush(stderr);
	c->file = memfd_create("onefold-eal", MFD_CLOEXEC);
	c->out = dup(STDOUT_FILENO);
	c->err = dup(STDERR_FILENO);
	if (c->file >= 0 && c->out >= 0 && c->err >= 0) {
		dup2(c->file, STDOUT_FILENO);
		dup2(c->file, STDERR_FILENO);
	}
}

static void release_output(struct caught *c)
{
	char part[4096];
	ssize_t n;
	fflush(stdout);
	fflush(stderr);
	if (c->file >= 0 && c->out >= 0 && c->err >= 0) {
		dup2(c->out, STDOUT_FILENO);
		dup2(c->err, STDERR_FILENO);
		lseek(c->file, 0, SEEK_SET);
		while ((n = read(c->file, part, sizeof(part))) > 0)
			log_write(NULL, part, (size_t)n);
	}
	if (c->file >= 0)
		close(c->file);
	if (c->out >= 0)
		close(c->out);
	if (c->err >= 0)
		close(c->err);
}

// Where the EAL ends the process (rte_panic), its last words are the operator's.
static int last_words_from = -1, last_words_to = -1;

static void last_words(int signal)
{
	char part[512];
	ssize_t n;
	(void)signal;
	lseek(last_words_from, 0, SEEK_SET);
	while ((n = read(last_words_from, part, sizeof(part))) > 0)
		if (write(last_words_to, part, (size_t)n) < 0)
			break;
	if (write(last_words_to, log_text, log_length) < 0)
		return;
}

// Starts the EAL; 0, or an error number. The thread's affinity stays as it was.
int of_start(int argc, char **argv, int loud)
{
	cookie_io_functions_t io = { .write = log_write };
	struct caught caught;
	cpu_set_t before;
	int known = pthread_getaffinity_np(pthread_self(), sizeof(before), &before) == 0;
	log_loud = loud;
	FILE *f = fopencookie(NULL, "w", io);
	if (f == NULL)
		return ENOMEM;
	setvbuf(f, NULL, _IONBF, 0);
	rte_openlog_stream(f);
	catch_output(&caught);
	last_words_from = caught.file;
	last_words_to = caught.err;
	// the handler returns, and the process ends as it would
	void (*aborts)(int) = signal(SIGABRT, last_words);
	int r = rte_eal_init(argc, argv);
	int error = r < 0 ? (rte_errno != 0 ? rte_errno : EINVAL) : 0;
	signal(SIGABRT, aborts);
	release_output(&caught);
	if (known)
		pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	return error;
}

int of_abi(void)
{
	// 22.11 has 23, 23.11 has 24
	return RTE_VER_YEAR + 1;
}

const char *of_version(void)
{
	return rte_version();
}

const char *of_runtime_dir(void)
{
	return rte_eal_get_runtime_dir();
}

// ---- devices -----------------------------------------------------------------------------------------------------

// Libraries of drivers print, too. Packets do not run yet: nobody else has anything to say.
static _Atomic int running;

void of_running(void)
{
	running = 1;
}

// Makes a device known that is not yet; its port's number, or a negative error number.
int of_probe(const char *devargs, const char *name)
{
	uint16_t port;
	if (rte_eth_dev_get_port_by_name(name, &port) != 0) {
		struct caught caught;
		if (!running)
			catch_output(&caught);
		int r = rte_dev_probe(devargs);
		if (!running)
			release_output(&caught);
		if (r < 0)
			return r;
		if (rte_eth_dev_get_port_by_name(name, &port) != 0)
			return -ENODEV;
	}
	return port;
}

struct of_info {
	char driver[64];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t max_rx_queues, max_tx_queues;
	uint16_t max_rx_descriptors, min_rx_descriptors, align_rx_descriptors;
	uint16_t max_tx_descriptors, min_tx_descriptors, align_tx_descriptors;
	uint32_t min_mtu, max_mtu;
	uint32_t min_rx_buffer;
	uint64_t rss;
	uint8_t hash_key;
	int32_t socket;
};

int of_info(uint16_t port, struct of_info *to)
{
	struct rte_eth_dev_info i;
	struct rte_ether_addr mac;
	memset(to, 0, sizeof(*to));
	int r = rte_eth_dev_info_get(port, &i);
	if (r != 0)
		return -r;
	if (i.driver_name != NULL)
		snprintf(to->driver, sizeof(to->driver), "%s", i.driver_name);
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(to->mac, mac.addr_bytes, 6);
	if (rte_eth_dev_get_mtu(port, &to->mtu) != 0)
		to->mtu = RTE_ETHER_MTU;
	to->max_rx_queues = i.max_rx_queues;
	to->max_tx_queues = i.max_tx_queues;
	to->max_rx_descriptors = i.rx_desc_lim.nb_max;
	to->min_rx_descriptors = i.rx_desc_lim.nb_min;
	to->align_rx_descriptors = i.rx_desc_lim.nb_align;
	to->max_tx_descriptors = i.tx_desc_lim.nb_max;
	to->min_tx_descriptors = i.tx_desc_lim.nb_min;
	to->align_tx_descriptors = i.tx_desc_lim.nb_align;
	to->min_mtu = i.min_mtu;
	to->max_mtu = i.max_mtu;
	to->min_rx_buffer = i.min_rx_bufsize;
	to->rss = i.flow_type_rss_offloads;
	to->hash_key = i.hash_key_size;
	to->socket = rte_eth_dev_socket_id(port);
	return 0;
}

// ---- memory ------------------------------------------------------------------------------------------------------

struct of_pool {
	struct rte_mempool *mempool;
	// by number
	struct rte_mbuf **mbufs;
	uintptr_t base;
	uint32_t numbers;
	// lines from one object to the next, and 2^40 over it, rounded up
	uint32_t stride;
	uint64_t inverse;
	// lines of a frame
	uint32_t lines;
};

static inline uint32_t number_of(const struct of_pool *p, const struct rte_mbuf *m)
{
	uint64_t line = ((uintptr_t)m - p->base) / LINE;
	return (uint32_t)((line * p->inverse) >> 40);
}

static void note(struct rte_mempool *mp, void *opaque, void *obj, unsigned int i)
{
	struct of_pool *p = opaque;
	uint32_t n = number_of(p, obj);
	(void)mp;
	(void)i;
	if (n < p->numbers)
		p->mbufs[n] = obj;
}

// A pool of mbufs with so much room for a frame (headroom not among it, a multiple of a line), in one memory: 0, or an
// error number.
int of_pool_make(uint32_t mbufs, uint16_t room, uint32_t cache, int socket, struct of_pool *to)
{
	uint16_t data = room + RTE_PKTMBUF_HEADROOM;
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = data };
	struct rte_mempool *mp = rte_mempool_create_empty("onefold", mbufs, sizeof(struct rte_mbuf) + data, cache,
							  sizeof(private), socket, 0);
	if (mp == NULL)
		return rte_errno;
	int r = rte_mempool_set_ops_byname(mp, rte_mbuf_best_mempool_ops(), NULL);
	if (r != 0) {
		rte_mempool_free(mp);
		return -r;
	}
	rte_pktmbuf_pool_init(mp, &private);
	size_t stride = mp->header_size + mp->elt_size + mp->trailer_size;
	// where pages are not one behind the other for a device, objects do not cross their bounds
	size_t page = 0, align = RTE_PGSIZE_4K;
	if (rte_eal_iova_mode() == RTE_IOVA_PA) {
		rte_mempool_get_page_size(mp, &page);
		align = page != 0 ? page : align;
	}
	size_t length = stride * mbufs;
	if (page > stride)
		length = ((size_t)mbufs / (page / stride) + 1) * page;
	const struct rte_memzone *zone = rte_memzone_reserve_aligned("onefold-frames", length, socket, 0, align);
	if (zone == NULL) {
		int e = rte_errno;
		rte_mempool_free(mp);
		return e != 0 ? e : ENOMEM;
	}
	// small pages cost half of the rate; the system may refuse
	if (!rte_eal_has_hugepages())
		madvise(zone->addr, zone->len, MADV_HUGEPAGE);
	if (page != 0) {
		r = rte_mempool_populate_virt(mp, zone->addr, zone->len, page, NULL, NULL);
	} else {
		// devices see the addresses that we see: objects may cross pages, which the flag says while they are made
		// (small pages would have one each otherwise)
		mp->flags |= RTE_MEMPOOL_F_NO_IOVA_CONTIG;
		r = rte_mempool_populate_iova(mp, zone->addr, (rte_iova_t)(uintptr_t)zone->addr, zone->len, NULL, NULL);
		mp->flags &= ~(RTE_MEMPOOL_F_NO_IOVA_CONTIG | RTE_MEMPOOL_F_NON_IO);
	}
	if (r <= 0) {
		rte_mempool_free(mp);
		rte_memzone_free(zone);
		return r < 0 ? -r : ENOMEM;
	}
	rte_mempool_obj_iter(mp, rte_pktmbuf_init, NULL);
	to->mempool = mp;
	to->base = (uintptr_t)zone->addr;
	to->stride = stride / LINE;
	to->inverse = ((1ull << 40) + to->stride - 1) / to->stride;
	to->numbers = length / stride + 1;
	to->lines = (data - SKIP) / LINE;
	to->mbufs = calloc(to->numbers, sizeof(*to->mbufs));
	if (to->mbufs == NULL || mp->populated_size < mbufs)
		return ENOMEM;
	if (stride % LINE != 0 || (uint64_t)length / LINE * to->stride >= 1ull << 40)
		return EINVAL;
	rte_mempool_obj_iter(mp, note, to);
	return 0;
}

// ---- queues ------------------------------------------------------------------------------------------------------

struct of_setup {
	uint16_t port, queues, rx_descriptors, tx_descriptors, mtu;
	uint8_t interrupts, promiscuous;
	uint64_t rss;
	uint8_t hash_key;
};

// Stages of a device's setup, as ffi.rs has them.
enum { CONFIGURE = 1, MTU, RX_QUEUE, TX_QUEUE };

static int configure(const struct of_setup *s, const struct of_pool *p)
{
	// both directions of a flow have one hash with a key whose 16-bit words are all the same
	uint8_t key[128];
	struct rte_eth_conf conf;
	int r;
	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = s->mtu;
	conf.intr_conf.rxq = s->interrupts;
	if (s->queues > 1 && s->rss != 0) {
		for (size_t i = 0; i < sizeof(key); i++)
			key[i] = i % 2 == 0 ? 0x6d : 0x5a;
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = s->rss & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP |
							     RTE_ETH_RSS_SCTP);
		if (s->hash_key > 0 && s->hash_key <= sizeof(key)) {
			conf.rx_adv_conf.rss_conf.rss_key = key;
			conf.rx_adv_conf.rss_conf.rss_key_len = s->hash_key;
		}
	}
	r = rte_eth_dev_configure(s->port, s->queues, s->queues, &conf);
	if (r != 0)
		return CONFIGURE << 16 | -r;
	uint16_t mtu = 0;
	if (rte_eth_dev_get_mtu(s->port, &mtu) == 0 && mtu != s->mtu) {
		r = rte_eth_dev_set_mtu(s->port, s->mtu);
		if (r != 0)
			return MTU << 16 | -r;
	}
	int socket = rte_eth_dev_socket_id(s->port);
	for (uint16_t q = 0; q < s->queues; q++) {
		r = rte_eth_rx_queue_setup(s->port, q, s->rx_descriptors, (unsigned int)socket, NULL, p->mempool);
		if (r != 0)
			return RX_QUEUE << 16 | -r;
		r = rte_eth_tx_queue_setup(s->port, q, s->tx_descriptors, (unsigned int)socket, NULL);
		if (r != 0)
			return TX_QUEUE << 16 | -r;
	}
	return 0;
}

// Configures a device; 0, or a stage * 65536 + error number.
int of_configure(const struct of_setup *s, const struct of_pool *p)
{
	struct caught caught;
	if (!running)
		catch_output(&caught);
	int r = configure(s, p);
	if (!running)
		release_output(&caught);
	return r;
}

// Packets may come and go; 0, or an error number.
int of_begin(uint16_t port, int promiscuous)
{
	int r = rte_eth_dev_start(port);
	if (r != 0)
		return -r;
	if (promiscuous) {
		// a device that has no such thing gets everything
		rte_eth_promiscuous_enable(port);
		rte_eth_allmulticast_enable(port);
	}
	return 0;
}

void of_stop(uint16_t port)
{
	rte_eth_dev_stop(port);
}

// The device is closed and forgotten.
void of_close(uint16_t port, int promiscuous)
{
	struct rte_eth_dev_info i;
	if (rte_eth_dev_info_get(port, &i) != 0)
		return;
	if (promiscuous)
		rte_eth_promiscuous_disable(port);
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	if (i.device != NULL)
		rte_dev_remove(i.device);
}

struct of_state {
	uint64_t missed, rx_errors, no_mbuf, tx_errors;
	uint16_t mtu;
	uint8_t up;
};

int of_state(uint16_t port, struct of_state *to)
{
	struct rte_eth_stats s;
	struct rte_eth_link l;
	memset(to, 0, sizeof(*to));
	memset(&l, 0, sizeof(l));
	if (rte_eth_stats_get(port, &s) == 0) {
		to->missed = s.imissed;
		to->rx_errors = s.ierrors;
		to->no_mbuf = s.rx_nombuf;
		to->tx_errors = s.oerrors;
	}
	if (rte_eth_link_get_nowait(port, &l) != 0)
		return ENODEV;
	to->up = l.link_status == RTE_ETH_LINK_UP;
	if (rte_eth_dev_get_mtu(port, &to->mtu) != 0)
		to->mtu = 0;
	return 0;
}

// ---- receive interrupts ------------------------------------------------------------------------------------------

// A queue wakes whoever waits for this epoll descriptor; 0, or an error number.
int of_wake(uint16_t port, uint16_t queue, int epoll)
{
	return -rte_eth_dev_rx_intr_ctl_q(port, queue, epoll, RTE_INTR_EVENT_ADD, NULL);
}

void of_arm(uint16_t port, uint16_t queue)
{
	// a device whose descriptor is readable while there are packets has nothing to arm
	rte_eth_dev_rx_intr_enable(port, queue);
}

// Woken, or not needed any more.
void of_disarm(uint16_t port, uint16_t first, uint16_t queues, int epoll)
{
	struct rte_epoll_event events[16];
	rte_epoll_wait(epoll, events, 16, 0);
	for (uint16_t q = 0; q < queues; q++)
		rte_eth_dev_rx_intr_disable(port, first + q);
}

// ---- bursts ------------------------------------------------------------------------------------------------------

struct of_frame {
	// where the packet's frame begins, or the mbuf if it is not `plain`
	void *at;
	uint32_t number;
	uint32_t length;
	// of the data in the frame
	uint16_t offset;
	uint16_t plain;
};

static inline void *frame_of(struct rte_mbuf *m)
{
	return RTE_PTR_ADD(m, sizeof(struct rte_mbuf) + SKIP);
}

static inline struct rte_mbuf *mbuf_of(void *frame)
{
	return RTE_PTR_SUB(frame, sizeof(struct rte_mbuf) + SKIP);
}

uint16_t of_receive(const struct of_pool *p, uint16_t port, uint16_t queue, struct of_frame *to, uint16_t n)
{
	struct rte_mbuf *all[BURST];
	n = rte_eth_rx_burst(port, queue, all, RTE_MIN(n, BURST));
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = all[i];
		// the packet, and the headroom in front of it, which is cleared
		rte_prefetch0(rte_pktmbuf_mtod(m, void *));
		rte_prefetch0(RTE_PTR_SUB(rte_pktmbuf_mtod(m, void *), LINE));
		// nobody asked for it; some drivers do it all the same
		if (unlikely(m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
			rte_vlan_insert(&m);
		int plain = m->nb_segs == 1 && m->pool == p->mempool && m->data_off >= SKIP &&
			    !(m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) && rte_mbuf_refcnt_read(m) == 1;
		to[i].plain = plain;
		to[i].length = m->pkt_len;
		if (likely(plain)) {
			to[i].at = frame_of(m);
			to[i].number = number_of(p, m);
			to[i].offset = m->data_off - SKIP;
		} else {
			to[i].at = m;
		}
	}
	return n;
}

// Copies a packet in several pieces, or of another pool, and gives it back; how many bytes.
uint32_t of_copy_out(void *mbuf, uint8_t *to, uint32_t room)
{
	struct rte_mbuf *first = mbuf;
	uint32_t done = 0;
	for (struct rte_mbuf *m = first; m != NULL && done < room; m = m->next) {
		uint32_t n = RTE_MIN((uint32_t)m->data_len, room - done);
		memcpy(to + done, rte_pktmbuf_mtod(m, void *), n);
		done += n;
	}
	rte_pktmbuf_free(first);
	return done;
}

// Frames for packets that lie elsewhere; how many.
uint16_t of_take(const struct of_pool *p, struct of_frame *to, uint16_t n)
{
	struct rte_mbuf *all[BURST];
	n = RTE_MIN(n, BURST);
	if (rte_pktmbuf_alloc_bulk(p->mempool, all, n) != 0)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		to[i].at = frame_of(all[i]);
		to[i].number = number_of(p, all[i]);
		to[i].plain = 1;
	}
	return n;
}

// Frames that nobody uses go back.
void of_give(const struct of_pool *p, void *const *frames, uint32_t n)
{
	struct rte_mbuf *all[BURST];
	while (n > 0) {
		uint32_t now = RTE_MIN(n, (uint32_t)BURST);
		for (uint32_t i = 0; i < now; i++)
			all[i] = mbuf_of(frames[i]);
		rte_mempool_put_bulk(p->mempool, (void *const *)all, now);
		frames += now;
		n -= now;
	}
}

// The same by number.
void of_give_numbers(const struct of_pool *p, const uint32_t *numbers, uint32_t n)
{
	struct rte_mbuf *all[BURST];
	while (n > 0) {
		uint32_t now = RTE_MIN(n, (uint32_t)BURST);
		uint32_t known = 0;
		for (uint32_t i = 0; i < now; i++)
			if (numbers[i] < p->numbers && p->mbufs[numbers[i]] != NULL)
				all[known++] = p->mbufs[numbers[i]];
		rte_mempool_put_bulk(p->mempool, (void *const *)all, known);
		numbers += now;
		n -= now;
	}
}

struct of_leaving {
	void *at;
	uint32_t length;
	uint32_t offset;
};

// Sends frames; how many of them. The others stay the caller's.
uint16_t of_send(uint16_t port, uint16_t queue, const struct of_leaving *frames, uint16_t n)
{
	struct rte_mbuf *all[BURST];
	n = RTE_MIN(n, BURST);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = mbuf_of(frames[i].at);
		m->data_off = (uint16_t)(SKIP + frames[i].offset);
		m->data_len = (uint16_t)frames[i].length;
		m->pkt_len = frames[i].length;
		m->ol_flags = 0;
		all[i] = m;
	}
	return rte_eth_tx_burst(port, queue, all, n);
}

// This thread gets a cache of its own of every pool; 0, or an error number.
int of_thread(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() == 0 ? 0 : rte_errno;
}
