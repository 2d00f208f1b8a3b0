// recurrent.h: what recurrent.cl (CPUs) and recurrent_gpu.cl share: the cells by name, their gates and slots.

#define TANH 1
#define RELU 2
#define LSTM 3
#define GRU 4

#ifndef CELL
#define CELL LSTM
#endif
#ifndef PART
#define PART 1
#endif
#ifndef REVERSED
#define REVERSED 0
#endif
#ifndef GIVEN
#define GIVEN 1
#endif

#if CELL == LSTM
#define GATES 4
#define SLOTS 6
#define KEPT 5
#elif CELL == GRU
#define GATES 3
#define SLOTS 5
#define KEPT 5
#else
#define GATES 1
#define SLOTS 1
#define KEPT 1
#endif

#define SIGMOID(v) (1 / (1 + exp(-(v))))
