// sums.h: what the additions of a long sum lose, kept.
//
//   TWO_SUM(TYPE, s, r, b)   s = s + b, and r grows by what the rounding of that lost, to the last bit (Knuth 1969; six additions, for scalars and vectors)
//   WHOLE(s, r)        s + r; s alone where a sum has left the numbers, which makes of r what it may
//
// Sums of blocks are added so: what a block of bounded length loses stays small against it, and what the blocks' sum loses is added at the end.
// Prepended by the generator where a kernel mentions them.

#define TWO_SUM(TYPE, s, r, b) { const TYPE t_ = (s) + (b), z_ = t_ - (s); (r) += ((s) - (t_ - z_)) + ((b) - z_); (s) = t_; }
#define WHOLE(s, r) ((r) - (r) == 0 ? (s) + (r) : (s))
