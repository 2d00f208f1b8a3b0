// cumulative.h: what is accumulated along an axis, HOW: SUM, PRODUCT, LOGADDEXP (the logarithm of the sum of exponentials), or MAXIMUM: the
// number of the first maximum so far, NaN above all. Included by cumulative.cl and cumulative_gpu.cl.
//
//   START              what adds nothing, in ACC
//   STEP(v, p, w, q)   v, whose maximum stands at p (-1: nowhere), and what comes behind it, w and q
//   AT(i)              the i-th step: REVERSE 1 walks from the end

#define SUM 1
#define PRODUCT 2
#define LOGADDEXP 3
#define MAXIMUM 4

#if HOW == SUM
#define START ((ACC)0)
#define STEP(v, p, w, q) v += (w);
#elif HOW == PRODUCT
#define START ((ACC)1)
#define STEP(v, p, w, q) v *= (w);
#elif HOW == LOGADDEXP
#define START (-(ACC)INFINITY)
#define STEP(v, p, w, q) v = both(v, w);
INLINE ACC both(const ACC a, const ACC b) {
    const ACC high = a > b || a != a ? a : b, low = a > b || a != a ? b : a;
    return high == low || high - high != 0 ? (high == low && high - high == 0 ? high + (ACC)0.69314718055994530942 : high) : high + log1p(exp(low - high));
}
#else
#define START ((ACC)0)
#define STEP(v, p, w, q) if (p < 0 || (w) > v || ((w) != (w) && v == v)) { v = (w); p = (q); }
#endif

#define AT(i) (REVERSE ? N - 1 - (i) : (i))
