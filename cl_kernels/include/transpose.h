// transpose.h: TRANSPOSE(VT, N, t) transposes the N vectors of N lanes in t, in registers. A matrix read as one flat array is transposed by
// log2(N) perfect shuffles.

#define TRANSPOSE(VT, N, t) \
    _Pragma("unroll") for (int step_ = 1; step_ < (N); step_ *= 2) { \
        VT s_[N]; \
        _Pragma("unroll") for (int i = 0; i < (N) / 2; i++) { \
            s_[i] = (VT)((t)[2 * i].even, (t)[2 * i + 1].even); \
            s_[i + (N) / 2] = (VT)((t)[2 * i].odd, (t)[2 * i + 1].odd); \
        } \
        _Pragma("unroll") for (int i = 0; i < (N); i++) (t)[i] = s_[i]; \
    }
