/* cpu_count.h: how many CPUs this process may use: those that it may run on, or fewer if a control
 * group, such as a container's, limits its CPU time. Threads beyond that would wait for each other:
 * the kernel stops all of them when the time is used up. */
#ifndef WV_CPU_COUNT_H
#define WV_CPU_COUNT_H

int cpu_count(void); /* at least 1 */

/* The limit of the groups listed in `groups` (/proc/self/cgroup), whose folders are below `root`
 * (/sys/fs/cgroup), in whole CPUs, rounded up; 0: there is none. */
int cpu_count_limit(const char *groups, const char *root);

#endif
