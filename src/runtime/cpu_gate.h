/* cpu_gate.h: who is about to use libLLVM goes in here and comes out when done.
 *
 * The end of the process destroys what LLVM keeps, and a fork copies its locks, whichever thread
 * holds them: both close the gate, which waits until nobody is inside and lets nobody in. exit()
 * runs the handlers that were set last first, and LLVM sets its own while it is being loaded. So
 * exit() waits for compiles by itself, but not for a thread that is loading LLVM: before it,
 * cpu_gate_exiting must be called. */
#ifndef WV_CPU_GATE_H
#define WV_CPU_GATE_H

#include <stdbool.h>

/* `loaded`: LLVM is, so that its handlers are set and run behind ours. */
void cpu_gate_in(bool loaded);
void cpu_gate_out(void);

/* True: the process is about to end; returns when nobody is inside. False: it goes on. */
void cpu_gate_exiting(bool is_exiting);

#endif
