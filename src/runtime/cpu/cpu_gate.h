/* cpu_gate.h: a thread enters before it uses libLLVM and leaves when done.
 *
 * The end of the process destroys LLVM's state, and a fork copies its locks, whichever thread holds
 * them. Both close the gate: they wait until no thread is inside, and let none in. exit() runs
 * handlers in reverse order of installation, and LLVM installs its own while it is being loaded. So
 * exit() waits for compilations by itself, but not for a thread that is loading LLVM: before that,
 * cpu_gate_exiting must be called. */
#ifndef WV_CPU_GATE_H
#define WV_CPU_GATE_H

#include <stdbool.h>

/* `loaded`: LLVM is loaded, so its handlers are installed and run after ours. */
void cpu_gate_in(bool loaded);
void cpu_gate_out(void);

/* True: the process is about to end; returns when no thread is inside. False: it continues. */
void cpu_gate_exiting(bool is_exiting);

#endif
