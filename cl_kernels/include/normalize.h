// normalize.h: what the row kernels of normalize.cl (CPUs) and normalize_gpu.cl share: kinds, what each reads, its formula in passes.
//
// The formulas are in normalize.cl's first lines. The including file defines the passes over a row and less_target

// A contracted g * w - mean(g * w) would keep the rounding error of one product and not of the other, and the root of a small
// variance multiplies it by hundreds. And which products are contracted is up to the compiler, kernel by kernel: a joint kernel
// and a single one would give different bits.
#pragma OPENCL FP_CONTRACT OFF

#define SOFTMAX 1
#define SOFTMAX_GRADIENT 2
#define LOG_SOFTMAX 3
#define LOG_SOFTMAX_GRADIENT 4
#define STANDARDIZE 5
#define LAYER_NORM 6
#define STANDARDIZE_GRADIENT 7
#define LAYER_NORM_GRADIENT 8
#define LAYER_NORM_PARAMETERS 9
#define RMS_NORM 10
#define RMS_NORM_GRADIENT 11
#define RMS_NORM_PARAMETERS 12
#define CROSS_ENTROPY 13
#define CROSS_ENTROPY_SLOPE 14
#define SOFT_CROSS_ENTROPY 15
#define CROSS_ENTROPY_AND_SLOPE 16
#define LAYER_NORM_GRADIENTS 17
#define RMS_NORM_GRADIENTS 18

#ifndef KIND
#define KIND SOFTMAX
#endif
#ifndef PART
#define PART 1                  // 1: rows, 2: partial_columns, 3: columns
#endif
#ifndef CHUNK
#define CHUNK 1                 // rows a work-item (CPU) or a work-group (partial_columns)
#endif
#ifndef ITEMS
#define ITEMS 1                 // partial sums that `columns` adds
#endif
#ifndef EPS
#define EPS 1e-5f
#endif
#ifndef SMOOTHING
#define SMOOTHING 0
#endif
#ifndef SMOOTHED
#define SMOOTHED 0              // whether SMOOTHING is not 0
#endif
#ifndef IGNORE
#define IGNORE (-100)
#endif

#define WITH_ROWS (KIND == LAYER_NORM_GRADIENTS || KIND == RMS_NORM_GRADIENTS)
#define WITH_SLOPE (KIND == CROSS_ENTROPY_SLOPE || KIND == CROSS_ENTROPY_AND_SLOPE)

// --- how operands are stored (see vector.h)
#ifndef X_KIND
#define X_KIND SAME
#endif
#ifndef G_KIND
#define G_KIND SAME
#endif
#ifndef Y_KIND
#define Y_KIND SAME
#endif
#ifndef Q_KIND
#define Q_KIND SAME
#endif
#ifndef GAMMA_KIND
#define GAMMA_KIND SAME
#endif
#ifndef BETA_KIND
#define BETA_KIND SAME
#endif

// --- READS(R, TYPE, LOAD): what a kind's passes read at column j of row r, LATE what only its results need
#if KIND == SOFTMAX || KIND == LOG_SOFTMAX || KIND == STANDARDIZE || KIND == LAYER_NORM || KIND == RMS_NORM || KIND == CROSS_ENTROPY || WITH_SLOPE
#define READS(R, TYPE, LOAD) R(TYPE, xv, LOAD(X_KIND, x + r * N + j))
#elif KIND == SOFTMAX_GRADIENT || KIND == LOG_SOFTMAX_GRADIENT
#define READS(R, TYPE, LOAD) R(TYPE, gv, LOAD(G_KIND, g + r * N + j)) R(TYPE, yv, LOAD(Y_KIND, y + r * N + j))
#elif KIND == SOFT_CROSS_ENTROPY
#define READS(R, TYPE, LOAD) R(TYPE, xv, LOAD(X_KIND, x + r * N + j)) R(TYPE, qv, LOAD(Q_KIND, q + r * N + j))
#elif KIND == LAYER_NORM_GRADIENT || KIND == RMS_NORM_GRADIENT
#define READS(R, TYPE, LOAD) R(TYPE, xv, LOAD(X_KIND, x + r * N + j)) R(TYPE, gv, LOAD(G_KIND, g + r * N + j) * LOAD(GAMMA_KIND, gamma + j))
#elif WITH_ROWS
#define READS(R, TYPE, LOAD) R(TYPE, xv, LOAD(X_KIND, x + r * N + j)) R(TYPE, fv, LOAD(G_KIND, g + r * N + j))
#else
#define READS(R, TYPE, LOAD) R(TYPE, xv, LOAD(X_KIND, x + r * N + j)) R(TYPE, gv, LOAD(G_KIND, g + r * N + j))
#endif
// what follows from that and is not worth a register from pass to pass
#if WITH_ROWS
#define DERIVED(TYPE, LOAD) const TYPE gv = fv * LOAD(GAMMA_KIND, gamma + j);
#else
#define DERIVED(TYPE, LOAD)
#endif
#if KIND == LAYER_NORM
#define LATE(R, TYPE, LOAD) R(TYPE, wv, LOAD(GAMMA_KIND, gamma + j)) R(TYPE, bv, LOAD(BETA_KIND, beta + j))
#elif KIND == RMS_NORM
#define LATE(R, TYPE, LOAD) R(TYPE, wv, LOAD(GAMMA_KIND, gamma + j))
#else
#define LATE(R, TYPE, LOAD)
#endif
#define DECLARE(TYPE, name, value) const TYPE name = value;

#define ADD(a, b) ((a) + (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// --- a row in passes: FOLD(a, INIT, MERGE, NEXT) declares a, a merge over j, NEXT what follows acc_; SUM(a, NEXT) a sum, SUM2(a, NEXT, b, OTHER)
//     two of one pass, SUM_KEPT(a, TERM) one whose terms OUT_KEPT finds again as e_; OUT(VALUE) stores. NEXT, TERM and VALUE work on scalars and vectors
// mean and rs = 1 / sqrt(variance + EPS) of the row, in two passes
#define STATISTICS \
    SUM(sum_, acc_ + xv) const T mean_ = sum_ / N; \
    SUM(square_, VFMA(xv - mean_, xv - mean_, acc_)) const T rs = 1 / sqrt(square_ / N + (T)(EPS));
// the same, with a = mean g and b = mean(g (x - mean)) r^2 on the way, and the gradient
#define LAYER_NORM_SLOPES \
    SUM2(sum_, acc_ + xv, s, acc_ + gv) const T mean_ = sum_ / N; \
    SUM2(square_, VFMA(xv - mean_, xv - mean_, acc_), sx, VFMA(gv, xv - mean_, acc_)) const T rs = 1 / sqrt(square_ / N + (T)(EPS)); \
    const T a = s / N, b = sx / N * rs * rs;
#define LAYER_NORM_SLOPE rs * (gv - a - (xv - mean_) * b)
#define RMS_NORM_SLOPES SUM2(square_, VFMA(xv, xv, acc_), sx, VFMA(gv, xv, acc_)) const T rs = 1 / sqrt(square_ / N + (T)(EPS)), b = sx / N * rs * rs;
#define RMS_NORM_SLOPE rs * (gv - xv * b)
#define RMS SUM(square_, VFMA(xv, xv, acc_)) const T rs = 1 / sqrt(square_ / N + (T)(EPS));
// the row's maximum where it is finite, else 0; ln sum e^x, 0 for a row of -INFINITY
#define TOP FOLD(max_, -INFINITY, MAX, MAX(acc_, xv)) const T top = max_ - max_ == 0 ? max_ : (T)(0);
#define LSE log(total == 0 ? (T)(1) : total)                 // of the row below its maximum
// the row's label, whether it is a class, and a column that may be read
#define LABEL const long label = labels[r]; const bool known = label >= 0 && label < N; const size_t at = known ? label : 0;

// STORE takes the target off an exponential on its way out.
#if WITH_SLOPE
#define LOW ((T)(SMOOTHING) / N)
#define HIGH (1 - (T)(SMOOTHING))
#define STORE_V(r, j, v) EPILOGUE_V(r, j, less_target(v, j, at SIZES_PASSED))
#define STORE(r, j, v) EPILOGUE(r, j, v - LOW - (j == at ? HIGH : (T)(0)))
#else
#define STORE_V EPILOGUE_V
#define STORE EPILOGUE
#endif

#if KIND == SOFTMAX
#define ROW TOP SUM_KEPT(total, exp(xv - top)) const T scale = total == 0 ? (T)(1) : 1 / total; \
    OUT_KEPT(exp(xv - top), e_ * scale)
#elif KIND == SOFTMAX_GRADIENT
#define ROW SUM(s, VFMA(gv, yv, acc_)) OUT(yv * (gv - s))
#elif KIND == LOG_SOFTMAX
#define ROW TOP SUM(total, acc_ + exp(xv - top)) const T lse = LSE; OUT((xv - top) - lse)
#elif KIND == LOG_SOFTMAX_GRADIENT
#define ROW SUM(s, acc_ + gv) OUT(gv - exp(yv) * s)
#elif KIND == STANDARDIZE
#define ROW STATISTICS OUT((xv - mean_) * rs)
#elif KIND == LAYER_NORM
#define ROW STATISTICS OUT((xv - mean_) * rs * wv + bv)
#elif KIND == STANDARDIZE_GRADIENT || KIND == LAYER_NORM_GRADIENT
#define ROW LAYER_NORM_SLOPES OUT(LAYER_NORM_SLOPE)
#elif KIND == RMS_NORM
#define ROW RMS OUT(xv * rs * wv)
#elif KIND == RMS_NORM_GRADIENT && N == 1
#define ROW RMS OUT(gv * ((T)(EPS) * rs * rs * rs))          // 1 - xh^2 = EPS r^2, without the difference
#elif KIND == RMS_NORM_GRADIENT
#define ROW RMS_NORM_SLOPES OUT(RMS_NORM_SLOPE)
#elif KIND == CROSS_ENTROPY || WITH_SLOPE
#if SMOOTHED
#define PICKED SUM(all, acc_ + (xv - top)) const T picked = (1 - (T)(SMOOTHING)) * (SCALAR_OF(X_KIND, x + r * N + at) - top) + (T)(SMOOTHING) / N * all;
#else
#define PICKED const T picked = SCALAR_OF(X_KIND, x + r * N + at) - top;
#endif
#define LOSS PICKED const T value = label == IGNORE ? (T)(0) : known ? LSE - picked : (T)(NAN);
#if KIND == CROSS_ENTROPY
#define ROW LABEL TOP SUM(total, acc_ + exp(xv - top)) LOSS ONCE { EPILOGUE(r, value); }
#else
#if KIND == CROSS_ENTROPY_AND_SLOPE
#define ALSO LOSS ONCE { EPILOGUE_ALSO(r, value); }
#define ALSO_NOTHING EPILOGUE_ALSO(r, (T)(0));
#else
#define ALSO
#define ALSO_NOTHING
#endif
#define ROW LABEL if (SKIP(label == IGNORE)) { ALSO_NOTHING OUT(0) } else { TOP SUM_KEPT(total, exp(xv - top)) ALSO \
    const T scale = !known ? (T)(NAN) : total == 0 ? (T)(1) : 1 / total; if (label == IGNORE) { OUT(0) } else { OUT_KEPT(exp(xv - top), e_ * scale) } }
#endif
#elif KIND == SOFT_CROSS_ENTROPY
#define ROW TOP SUM(total, acc_ + exp(xv - top)) const T lse = LSE; \
    SUM(value, acc_ + (qv == 0 ? qv : qv * (lse - (xv - top)))) ONCE { EPILOGUE(r, value); }
#endif

// --- sums over rows: of FLOW * NORMAL, and of FLOW where there are two; SLOPE is the gradient of a row on the way
#if KIND == LAYER_NORM_PARAMETERS
#define OUTPUTS 2
#define MOMENTS STATISTICS
#define NORMAL (xv - mean_) * rs
#elif KIND == LAYER_NORM_GRADIENTS
#define OUTPUTS 2
#define MOMENTS LAYER_NORM_SLOPES
#define NORMAL (xv - mean_) * rs
#define SLOPE LAYER_NORM_SLOPE
#elif KIND == RMS_NORM_GRADIENTS
#define OUTPUTS 1
#define MOMENTS RMS_NORM_SLOPES
#define NORMAL xv * rs
#define SLOPE RMS_NORM_SLOPE
#else
#define OUTPUTS 1
#define MOMENTS RMS
#define NORMAL xv * rs
#endif
#if WITH_ROWS
#define FLOW fv
#else
#define FLOW gv
#endif
