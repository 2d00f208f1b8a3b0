"""A device as OpenCL gives it: what there is, programs, memory, commands.

device          one device, what it can and its context
devices         all there are, and the choice of one
known_runtimes  what is particular to Intel's, NVIDIA's, AMD's runtimes and PoCL: a row each
runtimes        makes those that pip installed visible, before the loader looks
pocl            what PoCL 3.0 makes of a processor's name, mended
self_test       whether a device computes what OpenCL promises
roof            what it reaches at best

programs        compiled programs: from memory, from disk, from the compiler
program_files   those on disk, believed only if whole
together        all programs of a plan at once: those that are missing, in groups, side by side
joined          several programs as one text
compilers       processes that compile for this one
compile_child   what runs in such a process
compile_line    how far it has come, in a terminal
build_log       a compiler's log beside the lines it speaks of

memory          the pool
huge_pages      under large buffers of CPUs
commands        a queue a thread, waits that hear Ctrl-C
turns           how many threads compute at one time, and what each has to itself
pinned_inputs   what comes from the host while the step before runs
transfers       the account of copies
faults          OpenCL's error codes as errors of clnet
folders         the private folder, and files that are written whole
"""
