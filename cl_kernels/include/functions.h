// functions.h: functions that OpenCL lacks, or has only slowly. Prepended once for each type REAL (float, float16, double ...) that a
// program calls them with; INT is the integer type beside it, SINGLE says whether REAL is made of floats, SLOW_CALLS whether exp2 and
// tanh are calls that cost more than the products in them (CPUs; GPUs have instructions). Kernels call them by their bare names with VT.
//
//   TANH_REAL(x)   e / (e + 2) with e = exp(2x) - 1 = 2^n (1 + p) - 1, p = exp(2g) - 1 and x = n ln 2 / 2 + g, |g| <= ln 2 / 4
//     p = 2g + g^2 P(g) with P of degree 4, fitted so that the relative error of p is least: 1.3e-8 and what rounding adds, 2.9 units in
//     the last place of the result at worst. Nothing cancels: 2^n p + (2^n - 1) is p itself for n = 0. -INFINITY and INFINITY give -1, 1.
//   NDTR_REAL(x)   the normal distribution function, (1 + erf(x / sqrt 2)) / 2
//   GELU_REAL(x)   x NDTR(x) = max(x, 0) - |x| NDTR(-|x|)
//     In single precision NDTR(-t) = 2^(t P(t) - 1) for t >= 0 with P of degree 7, fitted to log2(2 NDTR(-t)) / t so that the
//     error of x NDTR(x) is least: 2e-8 and what rounding adds, below 7.2e-8 of 1 + |x NDTR(x)|. One exponential, of the base that
//     needs no product, where erf takes two branches, and no 1 + erf that loses the digits of the negative side. -INFINITY gives 0,
//     NaN stays.
//   GELU_SLOPE_REAL(x)   d/dx GELU(x) = NDTR(x) + x N(x), N the normal density
//     In single precision d/dx GELU(-t) = Q(t) 2^(-t^2 / (2 ln 2)) for t >= 0, with Q of degree 12, fitted to
//     (NDTR(-t) - t N(t)) exp(t^2 / 2) so that the error of the product is least: 5e-9 and what rounding adds, 5e-8 in all; at x it is 1
//     less that at -x. One exponential, not two.

inline REAL TANH_REAL(const REAL x) {
#if SINGLE && SLOW_CALLS
    const REAL below = x > 10.0f ? (REAL)(10.0f) : x, near = below < -10.0f ? (REAL)(-10.0f) : below;     // 1 in so many digits; NaN stays
    const REAL m = near * 2.885390043258667f + 12583039.0f, n = m - 12583039.0f;       // as in EXP2
    const REAL g = near - n * 0.3465735912322998f;
    REAL p = g * 0.0888480693101883f + 0.2677304446697235f;
    p = p * g + 0.6666752099990845f;
    p = p * g + 1.3333234786987305f;
    p = p * g + 1.9999998807907104f;
    p = p * g + 2.0f;
    p = p * g;
    const REAL power = as_REAL(as_INT(m) << 23), e = power * p + (power - 1.0f);
    return e / (e + 2.0f);
#else
    return tanh(x);
#endif
}

#if SINGLE
inline REAL NEAR_REAL(const REAL x) {               // |x|, finite: NDTR(-40) is 0, and infinity times 0 is not
    return fabs(x) > 40.0f ? (REAL)(40.0f) : fabs(x);
}

inline REAL EXP2_REAL(const REAL e) {               // 2^e, e <= 0
#if SLOW_CALLS
    const REAL p = e < -127.0f ? (REAL)(-127.0f) : e;       // which gives 0
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
    return exp2(e);
#endif
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
    return EXP2_REAL(p);
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

inline REAL GELU_SLOPE_REAL(const REAL x) {
#if SINGLE
    const REAL t = NEAR_REAL(x);
    REAL q = t * 5.996187013579402e-08f - 1.637064656279108e-06f;
    q = q * t + 2.023076558543835e-05f;
    q = q * t - 0.00015173231076914817f;
    q = q * t + 0.0007866843952797353f;
    q = q * t - 0.0030719537553611803f;
    q = q * t + 0.009685931727290154f;
    q = q * t - 0.026096288114786148f;
    q = q * t + 0.06228040158748627f;
    q = q * t - 0.1329241394996643f;
    q = q * t + 0.24999269843101501f;
    q = q * t - 0.7978842258453369f;
    q = q * t + 0.5f;
    const REAL down = q * EXP2_REAL(t * t * -0.72134752044448170f);
    return x < 0 ? down : 1 - down;
#else
    return x > 40 ? (REAL)(1) : x < -40 ? (REAL)(0) : NDTR_REAL(x) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
#endif
}
