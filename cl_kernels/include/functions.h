// functions.h: functions that OpenCL lacks, or has only slowly. Prepended once for each type REAL (float, float16, double ...) that a
// program calls them with; INT is the integer type beside it, SINGLE says whether REAL is made of floats, INLINE_EXP2 whether exp2 is
// a call that costs more than the products in it (CPUs; GPUs have an instruction).
//
//   NDTR_REAL(x)   the normal distribution function, (1 + erf(x / sqrt 2)) / 2
//   GELU_REAL(x)   x NDTR(x) = max(x, 0) - |x| NDTR(-|x|)
//     In single precision NDTR(-t) = 2^(t P(t) - 1) for t >= 0 with P of degree 7, fitted to log2(2 NDTR(-t)) / t so that the
//     error of x NDTR(x) is least: 2e-8 and what rounding adds, below 7.2e-8 of 1 + |x NDTR(x)|. One exponential, of the base that
//     needs no product, where erf takes two branches, and no 1 + erf that loses the digits of the negative side. -INFINITY gives 0,
//     NaN stays.

#if SINGLE
inline REAL NEAR_REAL(const REAL x) {               // |x|, finite: NDTR(-40) is 0, and infinity times 0 is not
    return fabs(x) > 40.0f ? (REAL)(40.0f) : fabs(x);
}

inline REAL TAIL_REAL(const REAL t) {               // NDTR(-t), t >= 0
    REAL p = t * -2.3349482489720685e-06f + 3.3737804187694564e-05f;
    p = p * t - 0.00016129377763718367f;
    p = p * t - 0.0001917037006933242f;
    p = p * t + 0.007126865442842245f;
    p = p * t - 0.05253361165523529f;
    p = p * t - 0.4591982662677765f;
    p = p * t - 1.1511059999465942f;
    p = p * t - 1.0f;
#if INLINE_EXP2
    p = p < -127.0f ? (REAL)(-127.0f) : p;                 // which gives 0
    const REAL n = p + 12583039.0f;                 // 1.5 * 2^23 + 127: its last bits are the exponent of 2^(p rounded)
    const REAL f = p - (n - 12583039.0f);
    REAL q = f * 0.00015345793508458883f + 0.0013399930903688073f;    // 2^f for |f| <= 1/2, within 2e-9
    q = q * f + 0.009618489071726799f;
    q = q * f + 0.05550328642129898f;
    q = q * f + 0.24022646248340607f;
    q = q * f + 0.6931471824645996f;
    q = q * f + 1.0f;
    return q * as_REAL(as_INT(n) << 23);
#else
    return exp2(p);
#endif
}
#endif

inline REAL NDTR_REAL(const REAL x) {
#if SINGLE
    const REAL tail = TAIL_REAL(NEAR_REAL(x));      // as in GELU, so that a launch of both computes it once
    return x < 0 ? tail : 1 - tail;
#else
    return 0.5 + 0.5 * erf(x * 0.70710678118654752440);
#endif
}

inline REAL GELU_REAL(const REAL x) {
#if SINGLE
    return (x > 0 ? x : (REAL)(0)) - NEAR_REAL(x) * TAIL_REAL(NEAR_REAL(x));
#else
    return x < -40 ? (REAL)(0) : x * NDTR_REAL(x);
#endif
}
