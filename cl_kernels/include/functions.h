// functions.h: functions that OpenCL lacks, or has only slowly. Prepended once for each type REAL (float, float16, double ...) that a
// program calls them with; SINGLE says whether REAL is made of floats.
//
//   NDTR_REAL(x)   the normal distribution function, (1 + erf(x / sqrt 2)) / 2
//     In single precision NDTR(-t) = e^(t P(t)) / 2 for t >= 0 with P of degree 7, fitted to ln(2 NDTR(-t)) / t so that the
//     error of x NDTR(x) is least: 2e-8 and what rounding adds, below 7.2e-8 of 1 + |x NDTR(x)|. One exponential where erf
//     takes two branches, and no 1 + erf that loses the digits of the negative side. -INFINITY gives 0, NaN stays.

inline REAL NDTR_REAL(const REAL x) {
#if SINGLE
    const REAL t = fabs(x);
    REAL p = t * -1.6184627611437463e-06f + 2.3385264285025187e-05f;
    p = p * t - 0.00011180032743141055f;
    p = p * t - 0.00013287887850310653f;
    p = p * t + 0.004939966835081577f;
    p = p * t - 0.03641352429986f;
    p = p * t - 0.3182919919490814f;
    p = p * t - 0.7978858947753906f;
    const REAL tail = 0.5f * exp(p * t);
    return x < 0 ? tail : 1 - tail;
#else
    return 0.5 + 0.5 * erf(x * 0.70710678118654752440);
#endif
}
