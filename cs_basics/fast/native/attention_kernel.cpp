// RoPE and FlashAttention-style causal attention on a CPU. attention_kernel.py compiles and calls
// it; triton_attention.py explains the algorithm.
//
// What makes it fast:
//
// - A tile of 64 keys by 64 queries stays in the L1 cache: its scores, weights and gradients are
//   at most 16 KiB each. As tensor operations, each of these steps runs over all heads and all
//   sequences before the next begins, and so goes through memory.
// - Tiles are stored transposed, keys down and queries across: 16 neighbouring queries fill a
//   register, and maximum, sum and rescaling of 16 softmaxes are one instruction each.
// - Products are computed in blocks of 4 x 64 (or 8 x 32) sums, which fit the registers: each
//   loaded vector is used four (eight) times, each number of the other factor four (two) times.
//
// These are the sizes for AVX-512. The code uses the vector extensions of GCC and Clang and so runs
// on any processor; only the product of pairs of bfloat16 and the rounding to bfloat16 use
// intrinsics where they exist. Each sequence and head of keys is computed by one thread, so the
// result has the same bits in every run, for any number of threads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

// A vector has as many lanes as a register. A block of sums has ROWS rows of VECTORS vectors; it
// and its operands have to fit the registers, of which AVX2 has 16 and the others 32.
#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 4;
#elif defined(__AVX2__)
constexpr int LANES = 8, ROWS = 2;
#else
constexpr int LANES = 4, ROWS = 4;
#endif
constexpr int VECTORS = 4;
constexpr long TILE = VECTORS * LANES;

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

template <class Vector>
Vector load(const void* source) {
    Vector vector;
    std::memcpy(&vector, source, sizeof vector);
    return vector;
}

template <class Vector>
void store(void* target, Vector vector) {
    std::memcpy(target, &vector, sizeof vector);
}

// A *unit* is 32 bits of a factor, which one lane multiplies and adds in one instruction: two
// neighbouring numbers of 16 bits (the first one in the low bits), or one of 32.

struct BFloat16 {
    typedef uint16_t Number;
    static constexpr long PER_UNIT = 2;

    static Floats low(Bits units) { return (Floats)(units << 16); }
    static Floats high(Bits units) { return (Floats)(units & 0xffff0000u); }

    static Floats multiply_add(Floats sum, Bits a, Bits b) {
#ifdef __AVX512BF16__
        return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
        return low(a) * low(b) + (high(a) * high(b) + sum);
#endif
    }

    static Halves round(Floats x) {
#ifdef __AVX512BF16__
        return (Halves)_mm512_cvtneps_pbh((__m512)x);
#else
        // To nearest, ties to even; NaN stays NaN.
        Bits bits = (Bits)x;
        Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        return __builtin_convertvector(x == x ? rounded : (bits >> 16) | 0x40u, Halves);
#endif
    }

    static Bits widen(Halves x) {
#ifdef __AVX512BF16__
        return (Bits)_mm512_cvtepu16_epi32((__m256i)x);  // GCC would emit four instructions.
#else
        return __builtin_convertvector(x, Bits);
#endif
    }

    static void store_rounded(Number* target, Floats x) { store(target, round(x)); }
    static Floats load_wide(const Number* source) { return low(widen(load<Halves>(source))); }

    // Interleave PER_UNIT rows to units; x holds one vector of each row.
    static Bits join(const Floats* x) { return widen(round(x[0])) | widen(round(x[1])) << 16; }

    static Floats sum_of(Bits units) { return low(units) + high(units); }
};

struct Float32 {
    typedef float Number;
    static constexpr long PER_UNIT = 1;

    static Floats multiply_add(Floats sum, Bits a, Bits b) { return (Floats)a * (Floats)b + sum; }
    static void store_rounded(Number* target, Floats x) { store(target, x); }
    static Floats load_wide(const Number* source) { return load<Floats>(source); }
    static Bits join(const Floats* x) { return (Bits)x[0]; }
    static Floats sum_of(Bits units) { return (Floats)units; }
};

// Keep a vector in a register: GCC would load it again for each use.
inline Bits hold(Bits vector) {
#ifdef __AVX2__
    asm("" : "+v"(vector));
#endif
    return vector;
}

// sums[row][LANES column ...] += a[row][unit] b[unit][LANES column ...], for one block of sums in
// registers.
template <class Type, int BLOCK_ROWS, int COLUMNS>
inline __attribute__((always_inline)) void add_product(
    Floats (&sums)[BLOCK_ROWS][COLUMNS], const uint32_t* a, long a_stride, const uint32_t* b,
    long b_stride, long units) {
    for (long unit = 0; unit < units; ++unit) {
        Bits across[COLUMNS];
#pragma GCC unroll 8
        for (int column = 0; column < COLUMNS; ++column)
            across[column] = hold(load<Bits>(b + unit * b_stride + column * LANES));
#pragma GCC unroll 8
        for (int row = 0; row < BLOCK_ROWS; ++row) {
            Bits down = a[row * a_stride + unit] + Bits{};
#pragma GCC unroll 8
            for (int column = 0; column < COLUMNS; ++column)
                sums[row][column] = Type::multiply_add(sums[row][column], down, across[column]);
        }
    }
}

// target[rows][columns] += a b, the whole matrix, block by block.
template <class Type, int BLOCK_ROWS, int COLUMNS>
void add_whole_product(float* target, long rows, long columns, const uint32_t* a, long a_stride,
                       const uint32_t* b, long b_stride, long units) {
    for (long column = 0; column < columns; column += COLUMNS * LANES) {
        for (long row = 0; row < rows; row += BLOCK_ROWS) {
            Floats sums[BLOCK_ROWS][COLUMNS];
            float* corner = target + row * columns + column;
            for (int r = 0; r < BLOCK_ROWS; ++r)
                for (int c = 0; c < COLUMNS; ++c)
                    sums[r][c] = load<Floats>(corner + r * columns + c * LANES);
            add_product<Type>(sums, a + row * a_stride, a_stride, b + column, b_stride, units);
            for (int r = 0; r < BLOCK_ROWS; ++r)
                for (int c = 0; c < COLUMNS; ++c)
                    store(corner + r * columns + c * LANES, sums[r][c]);
        }
    }
}

// 2^x for x of at most about 0; exactly 0 below 2^-126.
inline Floats exp2_of(Floats x) {
    // 2^x = 2^whole 2^part with |part| <= 1/2. The polynomial meets 2^part at 0 and (2^part - 1) /
    // part in the six zeros of a Chebyshev polynomial: off by less than a unit in the last place.
    const Floats shift = 12582912.0f + Floats{};  // 1.5 * 2^23: what is added to it, is rounded.
    Floats whole = (x + shift) - shift;
    Floats part = x - whole;
    Floats power = 1.54531634e-4f * part + 1.33908633e-3f;
    power = power * part + 9.61808302e-3f;
    power = power * part + 5.55035695e-2f;
    power = power * part + 2.40226507e-1f;
    power = power * part + 6.93147182e-1f;
    power = power * part + 1.0f;
    Ints exponent = (__builtin_convertvector(whole, Ints) + 127) << 23;
    return x < -126.0f ? Floats{} : power * (Floats)exponent;
}

// Transpose a square of units: swap blocks of half the rows across the diagonal, then of a quarter,
// and so on.
template <int DISTANCE, size_t... LANE>
void exchange(Bits (&rows)[LANES], std::index_sequence<LANE...> lanes) {
#pragma GCC unroll 16
    for (int row = 0; row < LANES; ++row) {
        if (row & DISTANCE) continue;
        Bits a = rows[row], b = rows[row + DISTANCE];
        rows[row] = __builtin_shufflevector(
            a, b, ((int)LANE & DISTANCE ? LANES + (int)LANE - DISTANCE : (int)LANE)...);
        rows[row + DISTANCE] = __builtin_shufflevector(
            a, b, ((int)LANE & DISTANCE ? LANES + (int)LANE : (int)LANE + DISTANCE)...);
    }
    if constexpr (DISTANCE > 1) exchange<DISTANCE / 2>(rows, lanes);
}

// target[columns][target_stride] = source[rows][source_stride] transposed; multiples of LANES.
void transpose(const uint32_t* source, long source_stride, uint32_t* target, long target_stride,
               long rows, long columns) {
    for (long row = 0; row < rows; row += LANES) {
        for (long column = 0; column < columns; column += LANES) {
            Bits block[LANES];
            for (long i = 0; i < LANES; ++i)
                block[i] = load<Bits>(source + (row + i) * source_stride + column);
            exchange<LANES / 2>(block, std::make_index_sequence<LANES>());
            for (long i = 0; i < LANES; ++i)
                store(target + (column + i) * target_stride + row, block[i]);
        }
    }
}

struct Sizes {
    long batch, seq, heads, kv_heads, d_head;
    long padded() const { return (seq + TILE - 1) / TILE * TILE; }
    long group() const { return heads / kv_heads; }
    long row() const { return (heads + 2 * kv_heads) * d_head; }
    long out_row() const { return heads * d_head; }
};

// cos and sin of each position, (seq, d_head / 2); null: no RoPE.
struct Angles {
    const float *cos, *sin;
};

// Apply RoPE to a row in half-split order (attention.py, rotate_half_split); the inverse rotation
// if direction is -1.
template <class Read, class Write>
inline void rotate(long d_head, Angles angles, long position, float direction, Read read,
                   Write write) {
    const long half = d_head / 2;
    for (long i = 0; i < half; i += LANES) {
        Floats first = read(i), second = read(half + i);
        if (angles.cos != nullptr) {
            Floats cos = load<Floats>(angles.cos + position * half + i);
            Floats sin = load<Floats>(angles.sin + position * half + i) * direction;
            Floats turned = first * cos - second * sin;
            second = first * sin + second * cos;
            first = turned;
        }
        write(i, first);
        write(half + i, second);
    }
}

// Copy the rows of a head, rotated, padded with zeros to a whole tile.
template <class Type>
void gather(const typename Type::Number* source, long source_stride, const Sizes& sizes,
            Angles angles, uint32_t* target) {
    auto* row = (typename Type::Number*)target;
    for (long position = 0; position < sizes.seq; ++position) {
        rotate(
            sizes.d_head, angles, position, 1, [=](long i) { return Type::load_wide(source + i); },
            [=](long i, Floats x) { Type::store_rounded(row + i, x); });
        __builtin_prefetch(source + 24 * source_stride);  // Rows lie far apart.
        source += source_stride;
        row += sizes.d_head;
    }
    std::memset(row, 0, (sizes.padded() - sizes.seq) * sizes.d_head * sizeof *row);
}

// Write the gradients of rows of a head, rotated back and rounded.
template <class Type>
void scatter(const float* source, const Sizes& sizes, Angles angles, typename Type::Number* target,
             long target_stride, long begin, long end) {
    target += begin * target_stride;
    for (long position = begin; position < end; ++position) {
        rotate(
            sizes.d_head, angles, position, -1, [=](long i) { return load<Floats>(source + i); },
            [=](long i, Floats x) { Type::store_rounded(target + i, x); });
        source += sizes.d_head;
        target += target_stride;
    }
}

// Interleave neighbouring rows to rows of units: (rows, d) numbers -> (rows / PER_UNIT, d) units.
template <class Type>
void join_rows(const uint32_t* source, long rows, long d, uint32_t* target) {
    auto* numbers = (const typename Type::Number*)source;
    for (long row = 0; row < rows; row += Type::PER_UNIT) {
        for (long i = 0; i < d; i += LANES) {
            Floats parts[Type::PER_UNIT];
            for (long part = 0; part < Type::PER_UNIT; ++part)
                parts[part] = Type::load_wide(numbers + (row + part) * d + i);
            store(target + row / Type::PER_UNIT * d + i, Type::join(parts));
        }
    }
}

// Scratch memory of one thread (an arena).
class Memory {
  public:
    explicit Memory(long num_units)
        : begin_((uint32_t*)::operator new(num_units * sizeof(uint32_t), ALIGNMENT)), next_(begin_) {}
    ~Memory() { ::operator delete(begin_, ALIGNMENT); }
    Memory(const Memory&) = delete;

    uint32_t* units(long number) {
        uint32_t* part = next_;
        next_ += number;
        return part;
    }
    float* floats(long number) { return (float*)units(number); }

  private:
    static constexpr std::align_val_t ALIGNMENT{64};
    uint32_t *begin_, *next_;
};

// Causal mask of a band on the diagonal: whether the query of each lane sees a key.
inline Ints is_visible(long key) {
    Ints lane;
    for (int i = 0; i < LANES; ++i) lane[i] = i;
    return lane >= (int32_t)key;
}

// A band is LANES keys of a tile. In a tile on the diagonal, band i is hidden from the first i
// vectors of queries: FIRST is the first vector of queries that sees the band, a compile-time
// constant.
template <class Call>
inline void for_each_band(bool is_diagonal, Call call) {
    for (long band = 0; band < VECTORS; ++band) {
        switch (is_diagonal ? band : 0) {
            case 0: call(band * LANES, std::integral_constant<int, 0>()); break;
            case 1: call(band * LANES, std::integral_constant<int, 1>()); break;
            case 2: call(band * LANES, std::integral_constant<int, 2>()); break;
            default: call(band * LANES, std::integral_constant<int, 3>());
        }
    }
}

struct Softmax {
    Floats highest[VECTORS], total[VECTORS];
};

// Scores and weights of a tile, added to the weighted sum of values by online softmax.
template <class Type>
void attend_tile(const uint32_t* keys, const uint32_t* queries_across, const uint32_t* values_down,
                 long values_stride, long d, bool is_diagonal, float scale, float* scores,
                 uint32_t* weights, Softmax& softmax, float* mixture) {
    const long units = d / Type::PER_UNIT;
    Floats highest[VECTORS], shrink[VECTORS];
    for (int c = 0; c < VECTORS; ++c) highest[c] = softmax.highest[c];
    for_each_band(is_diagonal, [&](long band, auto first_vector) {
        constexpr int FIRST = decltype(first_vector)::value;
        for (long key = band; key < band + LANES; key += ROWS) {
            Floats sums[ROWS][VECTORS - FIRST] = {};
            add_product<Type>(sums, keys + key * units, units, queries_across + FIRST * LANES, TILE,
                              units);
            for (int r = 0; r < ROWS; ++r) {
                if (is_diagonal)
                    sums[r][0] = is_visible(key + r - band) ? sums[r][0] : -INFINITY + Floats{};
                for (int c = FIRST; c < VECTORS; ++c) {
                    Floats score = sums[r][c - FIRST];
                    highest[c] = score > highest[c] ? score : highest[c];
                    store(scores + (key + r) * TILE + c * LANES, score);
                }
            }
        }
    });
    for (int c = 0; c < VECTORS; ++c) {
        shrink[c] = exp2_of((softmax.highest[c] - highest[c]) * scale);
        Floats total = softmax.total[c] * shrink[c];
        const long end = is_diagonal ? (c + 1) * LANES : TILE;
        for (long key = 0; key < end; key += Type::PER_UNIT) {
            Floats rows[Type::PER_UNIT];
            for (int part = 0; part < Type::PER_UNIT; ++part) {
                Floats score = load<Floats>(scores + (key + part) * TILE + c * LANES);
                rows[part] = exp2_of((score - highest[c]) * scale);
            }
            // Rounded before they are summed, so that the sum is that of the weights in use.
            Bits joined = Type::join(rows);
            total += Type::sum_of(joined);
            store(weights + key / Type::PER_UNIT * TILE + c * LANES, joined);
        }
        for (long key = end; key < TILE; key += Type::PER_UNIT)
            store(weights + key / Type::PER_UNIT * TILE + c * LANES, Bits{});
        softmax.highest[c] = highest[c];
        softmax.total[c] = total;
    }
    for (long row = 0; row < d; row += ROWS) {
        Floats sums[ROWS][VECTORS];
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < VECTORS; ++c)
                sums[r][c] = load<Floats>(mixture + (row + r) * TILE + c * LANES) * shrink[c];
        add_product<Type>(sums, values_down + row * values_stride, values_stride, weights, TILE,
                          TILE / Type::PER_UNIT);
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < VECTORS; ++c)
                store(mixture + (row + r) * TILE + c * LANES, sums[r][c]);
    }
}

constexpr float LOG2_E = 1.44269504088896340736f;

template <class Type>
void forward(const typename Type::Number* qkv, Angles angles, typename Type::Number* out,
             float* log_normalisers, Sizes sizes) {
    const long d = sizes.d_head, n = sizes.padded(), units = d / Type::PER_UNIT;
    // Powers of two are cheaper than powers of e.
    const float scale = LOG2_E / std::sqrt((float)d);
#pragma omp parallel
    {
        Memory memory(3 * n * units + n * d / Type::PER_UNIT * 2 + TILE * (3 * TILE + 4 * d));
        uint32_t* queries = memory.units(n * units);
        uint32_t* keys = memory.units(n * units);
        uint32_t* values = memory.units(n * units);
        uint32_t* joined = memory.units(n * d / Type::PER_UNIT);
        uint32_t* values_down = memory.units(n * d / Type::PER_UNIT);
        uint32_t* queries_across = memory.units(TILE * units);
        float* scores = memory.floats(TILE * TILE);
        uint32_t* weights = memory.units(TILE * TILE);
        float* mixture = memory.floats(TILE * d);
        float* rows = memory.floats(TILE * d);
#pragma omp for collapse(2) schedule(static)
        for (long sequence = 0; sequence < sizes.batch; ++sequence) {
            for (long kv_head = 0; kv_head < sizes.kv_heads; ++kv_head) {
                const auto* first = qkv + sequence * sizes.seq * sizes.row();
                const auto* first_key = first + (sizes.heads + kv_head) * d;
                gather<Type>(first_key, sizes.row(), sizes, angles, keys);
                gather<Type>(first_key + sizes.kv_heads * d, sizes.row(), sizes, {}, values);
                join_rows<Type>(values, n, d, joined);
                transpose(joined, d, values_down, n / Type::PER_UNIT, n / Type::PER_UNIT, d);
                for (long member = 0; member < sizes.group(); ++member) {
                    const long head = kv_head * sizes.group() + member;
                    gather<Type>(first + head * d, sizes.row(), sizes, angles, queries);
                    for (long query = 0; query < n; query += TILE) {
                        transpose(queries + query * units, units, queries_across, TILE, TILE, units);
                        Softmax softmax;
                        for (int c = 0; c < VECTORS; ++c) {
                            softmax.highest[c] = -INFINITY + Floats{};
                            softmax.total[c] = Floats{};
                        }
                        std::memset(mixture, 0, TILE * d * sizeof(float));
                        for (long key = 0; key <= query; key += TILE)
                            attend_tile<Type>(keys + key * units, queries_across,
                                              values_down + key / Type::PER_UNIT,
                                              n / Type::PER_UNIT, d, key == query, scale, scores,
                                              weights, softmax, mixture);
                        for (long i = 0; i < d; ++i)
                            for (int c = 0; c < VECTORS; ++c) {
                                float* place = mixture + i * TILE + c * LANES;
                                store(place, load<Floats>(place) / softmax.total[c]);
                            }
                        transpose((uint32_t*)mixture, TILE, (uint32_t*)rows, d, d, TILE);
                        const long end = std::min(query + TILE, sizes.seq);
                        scatter<Type>(rows, sizes, {},
                                      out + sequence * sizes.seq * sizes.out_row() + head * d,
                                      sizes.out_row(), query, end);
                        float* normalisers =
                            log_normalisers + (sequence * sizes.heads + head) * sizes.seq;
                        for (long i = query; i < end; ++i) {
                            const long c = (i - query) / LANES, lane = (i - query) % LANES;
                            normalisers[i] = softmax.highest[c][lane] * scale +
                                             std::log2(softmax.total[c][lane]);
                        }
                    }
                }
            }
        }
    }
}

// Weights of a tile and the gradients of its scores, both zero where the mask hides a key.
template <class Type>
void attend_tile_backward(const uint32_t* keys, const uint32_t* values,
                          const uint32_t* queries_across, const uint32_t* grads_across,
                          const float* log_normalisers, const float* deltas, long d,
                          bool is_diagonal, typename Type::Number* weights,
                          typename Type::Number* grad_scores, uint32_t* grad_scores_joined) {
    const long units = d / Type::PER_UNIT;
    const float scale = 1 / std::sqrt((float)d);
    for_each_band(is_diagonal, [&](long band, auto first_vector) {
        constexpr int FIRST = decltype(first_vector)::value;
        for (long key = band; key < band + LANES; key += ROWS) {
            Floats p[ROWS][VECTORS - FIRST] = {}, grads[ROWS][VECTORS - FIRST] = {};
            add_product<Type>(p, keys + key * units, units, queries_across + FIRST * LANES, TILE,
                              units);
            for (int r = 0; r < ROWS; ++r) {
                for (int c = FIRST; c < VECTORS; ++c) {
                    Floats normaliser = load<Floats>(log_normalisers + c * LANES);
                    p[r][c - FIRST] = exp2_of(p[r][c - FIRST] * (scale * LOG2_E) - normaliser);
                }
                if (is_diagonal) p[r][0] = is_visible(key + r - band) ? p[r][0] : Floats{};
                for (int c = FIRST; c < VECTORS; ++c)
                    Type::store_rounded(weights + (key + r) * TILE + c * LANES, p[r][c - FIRST]);
            }
            add_product<Type>(grads, values + key * units, units, grads_across + FIRST * LANES,
                              TILE, units);
            for (int c = 0; c < VECTORS; ++c) {
                Floats rows[ROWS] = {};
                for (int r = 0; r < ROWS && c >= FIRST; ++r) {
                    Floats delta = load<Floats>(deltas + c * LANES);
                    rows[r] = p[r][c - FIRST] * (grads[r][c - FIRST] - delta) * scale;
                    Type::store_rounded(grad_scores + (key + r) * TILE + c * LANES, rows[r]);
                }
                for (int r = 0; r < ROWS; r += Type::PER_UNIT)
                    store(grad_scores_joined + (key + r) / Type::PER_UNIT * TILE + c * LANES,
                          Type::join(rows + r));
            }
        }
    });
}

// target[keys of a tile][d] += tile^T rows, skipping rows that the causal mask hides from a band.
template <class Type>
void add_rows(float* target, const typename Type::Number* tile, const uint32_t* rows, long d,
              bool is_diagonal) {
    constexpr int DOWN = std::min(2 * ROWS, LANES);
    const long units = TILE / Type::PER_UNIT;
    for (long band = 0; band < TILE; band += LANES) {
        const long first = is_diagonal ? band / Type::PER_UNIT : 0;
        add_whole_product<Type, DOWN, VECTORS / 2>(target + band * d, LANES, d,
                                      (const uint32_t*)tile + band * units + first, units,
                                      rows + first * d, d, units - first);
    }
}

template <class Type>
void backward(const typename Type::Number* qkv, Angles angles, const typename Type::Number* out,
              const float* log_normalisers, const typename Type::Number* grad_out,
              typename Type::Number* grad_qkv, Sizes sizes) {
    const long d = sizes.d_head, n = sizes.padded(), units = d / Type::PER_UNIT;
    const long joined_units = n * d / Type::PER_UNIT;
    const long tile_units = TILE * TILE / Type::PER_UNIT;
#pragma omp parallel
    {
        Memory memory(7 * n * units + 4 * joined_units + 3 * n * d + 2 * n + 3 * tile_units +
                      TILE * d);
        uint32_t* keys = memory.units(n * units);
        uint32_t* values = memory.units(n * units);
        uint32_t* keys_joined = memory.units(joined_units);
        uint32_t* keys_down = memory.units(joined_units);
        uint32_t* queries = memory.units(n * units);
        uint32_t* queries_across = memory.units(n * units);
        uint32_t* queries_joined = memory.units(joined_units);
        uint32_t* grads = memory.units(n * units);
        uint32_t* grads_across = memory.units(n * units);
        uint32_t* grads_joined = memory.units(joined_units);
        float* grad_queries = memory.floats(n * d);  // per tile: d_head down, queries across
        float* grad_keys = memory.floats(n * d);
        float* grad_values = memory.floats(n * d);
        float* normalisers = memory.floats(n);
        float* deltas = memory.floats(n);
        auto* weights = (typename Type::Number*)memory.units(tile_units);
        auto* grad_scores = (typename Type::Number*)memory.units(tile_units);
        uint32_t* grad_scores_joined = memory.units(tile_units);
        float* rows = memory.floats(TILE * d);
#pragma omp for collapse(2) schedule(static)
        for (long sequence = 0; sequence < sizes.batch; ++sequence) {
            for (long kv_head = 0; kv_head < sizes.kv_heads; ++kv_head) {
                const long start = sequence * sizes.seq * sizes.row();
                const long key_column = (sizes.heads + kv_head) * d;
                const long value_column = key_column + sizes.kv_heads * d;
                gather<Type>(qkv + start + key_column, sizes.row(), sizes, angles, keys);
                gather<Type>(qkv + start + value_column, sizes.row(), sizes, {}, values);
                join_rows<Type>(keys, n, d, keys_joined);
                transpose(keys_joined, d, keys_down, n / Type::PER_UNIT, n / Type::PER_UNIT, d);
                std::memset(grad_keys, 0, n * d * sizeof(float));
                std::memset(grad_values, 0, n * d * sizeof(float));
                for (long member = 0; member < sizes.group(); ++member) {
                    const long head = kv_head * sizes.group() + member;
                    const long out_start = sequence * sizes.seq * sizes.out_row() + head * d;
                    gather<Type>(qkv + start + head * d, sizes.row(), sizes, angles, queries);
                    gather<Type>(grad_out + out_start, sizes.out_row(), sizes, {}, grads);
                    join_rows<Type>(queries, n, d, queries_joined);
                    join_rows<Type>(grads, n, d, grads_joined);
                    for (long query = 0; query < n; query += TILE) {
                        transpose(queries + query * units, units, queries_across + query * units,
                                  TILE, TILE, units);
                        transpose(grads + query * units, units, grads_across + query * units, TILE,
                                  TILE, units);
                    }
                    std::memset(grad_queries, 0, n * d * sizeof(float));
                    // Padding after the last query: weights of 1 times gradients of 0.
                    std::memset(normalisers, 0, n * sizeof(float));
                    std::memset(deltas, 0, n * sizeof(float));
                    std::memcpy(normalisers,
                                log_normalisers + (sequence * sizes.heads + head) * sizes.seq,
                                sizes.seq * sizeof(float));
                    for (long query = 0; query < sizes.seq; ++query) {
                        const long place = out_start + query * sizes.out_row();
                        Floats sums = {};
                        for (long i = 0; i < d; i += LANES)
                            sums += Type::load_wide(out + place + i) *
                                    Type::load_wide(grad_out + place + i);
                        for (int lane = 0; lane < LANES; ++lane) deltas[query] += sums[lane];
                    }
                    for (long key = 0; key < n; key += TILE) {
                        for (long query = key; query < n; query += TILE) {
                            attend_tile_backward<Type>(
                                keys + key * units, values + key * units,
                                queries_across + query * units, grads_across + query * units,
                                normalisers + query, deltas + query, d, key == query, weights,
                                grad_scores, grad_scores_joined);
                            const uint32_t* those = grads_joined + query / Type::PER_UNIT * d;
                            add_rows<Type>(grad_values + key * d, weights, those, d, key == query);
                            those = queries_joined + query / Type::PER_UNIT * d;
                            add_rows<Type>(grad_keys + key * d, grad_scores, those, d,
                                           key == query);
                            add_whole_product<Type, ROWS, VECTORS>(
                                grad_queries + query * d, d, TILE, keys_down + key / Type::PER_UNIT,
                                n / Type::PER_UNIT, grad_scores_joined, TILE, TILE / Type::PER_UNIT);
                        }
                    }
                    for (long query = 0; query < n; query += TILE) {
                        transpose((uint32_t*)grad_queries + query * d, TILE, (uint32_t*)rows, d, d,
                                  TILE);
                        scatter<Type>(rows, sizes, angles, grad_qkv + start + head * d, sizes.row(),
                                      query, std::min(query + TILE, sizes.seq));
                    }
                }
                scatter<Type>(grad_keys, sizes, angles, grad_qkv + start + key_column, sizes.row(),
                              0, sizes.seq);
                scatter<Type>(grad_values, sizes, {}, grad_qkv + start + value_column, sizes.row(),
                              0, sizes.seq);
            }
        }
    }
}

}  // namespace

#define EXPORT(TYPE, NAME)                                                                        \
    extern "C" void forward_##NAME(const void* qkv, const float* cos, const float* sin,           \
                                   void* out, float* log_normalisers, long batch, long seq,       \
                                   long heads, long kv_heads, long d_head) {                      \
        forward<TYPE>((const TYPE::Number*)qkv, {cos, sin}, (TYPE::Number*)out, log_normalisers,  \
                      {batch, seq, heads, kv_heads, d_head});                                     \
    }                                                                                             \
    extern "C" void backward_##NAME(const void* qkv, const float* cos, const float* sin,          \
                                    const void* out, const float* log_normalisers,                \
                                    const void* grad_out, void* grad_qkv, long batch, long seq,   \
                                    long heads, long kv_heads, long d_head) {                     \
        backward<TYPE>((const TYPE::Number*)qkv, {cos, sin}, (const TYPE::Number*)out,            \
                       log_normalisers, (const TYPE::Number*)grad_out, (TYPE::Number*)grad_qkv,   \
                       {batch, seq, heads, kv_heads, d_head});                                    \
    }

EXPORT(BFloat16, bfloat16)
EXPORT(Float32, float32)
