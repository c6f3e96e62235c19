/* Stands in for a kernel with WireGuard, so that wg(8) says what it would ask of it:
 * its lookup of the family is answered, what it sends next is written to stderr in
 * hexadecimal digits and agreed to. See capture.sh. */
#define _GNU_SOURCE
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define FAMILY 28

static struct {
    struct {
        struct nlmsghdr header;
        struct genlmsghdr generic;
        struct nlattr attribute;
        unsigned short id, padding;
    } family;
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } agreed;
} answer;
static int is_lookup;

ssize_t sendto(int fd, const void *bytes, size_t length, int flags,
               const struct sockaddr *to, socklen_t to_length)
{
    const struct nlmsghdr *request = bytes;
    is_lookup = request->nlmsg_type == GENL_ID_CTRL;
    memset(&answer, 0, sizeof answer);
    answer.family.header = (struct nlmsghdr){ sizeof answer.family, GENL_ID_CTRL, 0, request->nlmsg_seq, 0 };
    answer.family.generic = (struct genlmsghdr){ CTRL_CMD_NEWFAMILY, 2, 0 };
    answer.family.attribute = (struct nlattr){ sizeof(struct nlattr) + 2, CTRL_ATTR_FAMILY_ID };
    answer.family.id = FAMILY;
    answer.agreed.header = (struct nlmsghdr){ sizeof answer.agreed, NLMSG_ERROR, 0, request->nlmsg_seq, 0 };
    for (size_t at = 0; at < length && !is_lookup; at++)
        fprintf(stderr, "%02x", ((const unsigned char *)bytes)[at]);
    if (!is_lookup)
        fprintf(stderr, "\n");
    return length;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    const void *from = is_lookup ? (const void *)&answer : (const void *)&answer.agreed;
    size_t length = is_lookup ? sizeof answer : sizeof answer.agreed;
    memcpy(message->msg_iov[0].iov_base, from, length);
    if (message->msg_name)
        memcpy(message->msg_name, &kernel, message->msg_namelen = sizeof kernel);
    message->msg_flags = 0;
    return length;
}
