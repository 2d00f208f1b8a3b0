// order.h: the order in which things are sorted, and pairs (element, its number) that are moved. Included by sort.cl and sort_gpu.cl.
//
//   B            the unsigned integer that holds the bits of an element of BITS bits; FORM is FLOAT_, SIGNED_ or UNSIGNED_
//   RANK(TYPE, u)  a number of type TYPE (B, or a vector of B) that orders elements with bits u as they are sorted: a rank below goes first.
//                -0 and 0 are one, NaN is the last in both directions (ranks of all ones), DESCENDING 0 or 1
//   LAST_BITS    bits of the last rank there is
//   ITEM         what is moved: the bits alone (PAIRS 0), or bits and number: BITS_OF, NUMBER_OF, MADE(bits, number)
//   before(a, b) whether b has to stand before a that came first, strictly: what keeps equal elements in their order

#define FLOAT_ 1
#define SIGNED_ 2
#define UNSIGNED_ 3

#if BITS == 8
#define B uchar
#elif BITS == 16
#define B ushort
#elif BITS == 32
#define B uint
#else
#define B ulong
#endif
#define TOP_BIT ((B)1 << (BITS - 1))
#define ALL_BITS ((B)~(B)0)
#if BITS == 64
#define INFINITE 0x7ff0000000000000UL
#else
#define INFINITE 0x7f800000U
#endif

#if FORM == FLOAT_ || FORM == SIGNED_ && !DESCENDING
#define LAST_BITS ((B)~TOP_BIT)
#elif FORM == SIGNED_
#define LAST_BITS TOP_BIT
#else
#define LAST_BITS (DESCENDING ? (B)0 : ALL_BITS)
#endif

INLINE B rank_of(B u) {
#if FORM == FLOAT_
    const B magnitude = u & (B)~TOP_BIT;
    const bool nan = magnitude > (B)INFINITE;
    u = magnitude ? u : 0;
    u ^= (B)(-(B)(u >> (BITS - 1))) | TOP_BIT;
#if DESCENDING
    u = ~u;
#endif
    return nan ? ALL_BITS : u;
#else
#if FORM == SIGNED_
    u ^= TOP_BIT;
#endif
#if DESCENDING
    u = (B)~u;
#endif
    return u;
#endif
}

#if !PAIRS
#define ITEM B
#define BITS_OF(item) (item)
#define MADE(bits, number) (bits)
#elif BITS == 64
#define ITEM ulong2
#define BITS_OF(item) ((item).x)
#define NUMBER_OF(item) ((item).y)
#define MADE(bits, number) ((ulong2)((bits), (number)))
#else
#define ITEM ulong
#define BITS_OF(item) ((B)(item))
#define NUMBER_OF(item) ((item) >> 32)
#define MADE(bits, number) ((ulong)(bits) | (ulong)(number) << 32)
#endif

INLINE bool before(const ITEM a, const ITEM b) { return rank_of(BITS_OF(b)) < rank_of(BITS_OF(a)); }
