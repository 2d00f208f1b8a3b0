// functions.h: functions that OpenCL lacks, or has only slowly. Prepended once for each type REAL (float, float16, double ...) that a
// program calls them with; SINGLE says whether REAL is made of floats.
//
//   NDTR_REAL(x)   the normal distribution function, (1 + erf(x / sqrt 2)) / 2
//     In single precision NDTR(-t) = 2^(t P(t) - 1) for t >= 0 with P of degree 7, fitted to log2(2 NDTR(-t)) / t so that the
//     error of x NDTR(x) is least: 2e-8 and what rounding adds, below 7.2e-8 of 1 + |x NDTR(x)|. One exponential, of the base that
//     needs no product, where erf takes two branches, and no 1 + erf that loses the digits of the negative side. -INFINITY gives 0,
//     NaN stays.

inline REAL NDTR_REAL(const REAL x) {
#if SINGLE
    const REAL t = fabs(x);
    REAL p = t * -2.3349482489720685e-06f + 3.3737804187694564e-05f;
    p = p * t - 0.00016129377763718367f;
    p = p * t - 0.0001917037006933242f;
    p = p * t + 0.007126865442842245f;
    p = p * t - 0.05253361165523529f;
    p = p * t - 0.4591982662677765f;
    p = p * t - 1.1511059999465942f;
    const REAL tail = exp2(p * t - 1.0f);
    return x < 0 ? tail : 1 - tail;
#else
    return 0.5 + 0.5 * erf(x * 0.70710678118654752440);
#endif
}
