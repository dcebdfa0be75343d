// A mutator for input that is made of pieces with their sizes in front: packets, blocks, frames,
// messages. Bytes changed anywhere would mostly break a size, and nothing behind it would be read;
// here sizes fit what they count again, mostly. REPRISE_PIECES is the form's initializer (see
// PIECES of reprise_fuzz).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using Buffer = std::vector<std::uint8_t>;
using Bytes = std::span<const std::uint8_t>;

struct Form {
    std::size_t first = 0;   ///< bytes before the first piece
    std::size_t header = 4;  ///< bytes before a body
    std::size_t size_at = 0; ///< where in them the size is, little-endian
    std::size_t size_bytes = 4;
    bool big_endian = false;
    bool framed =
        false; ///< as in pcapng: the size counts all of the piece and stands behind it again
};

constexpr Form kForm{REPRISE_PIECES};
constexpr std::size_t kTrailer = kForm.framed ? kForm.size_bytes : 0;

struct Piece {
    Buffer header;
    Buffer body;
};

std::size_t byte_of_size(std::size_t i) { return kForm.big_endian ? kForm.size_bytes - 1 - i : i; }

std::size_t read_size(Bytes bytes) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < kForm.size_bytes; ++i) {
        size |= std::size_t{bytes[byte_of_size(i)]} << (8 * i);
    }
    return size;
}

void write_size(std::span<std::uint8_t> bytes, std::size_t size) {
    for (std::size_t i = 0; i < kForm.size_bytes; ++i) {
        bytes[byte_of_size(i)] = static_cast<std::uint8_t>(size >> (8 * i));
    }
}

/// The body's size, no more than what is left.
std::size_t body_size(Bytes header, std::size_t left) {
    const std::size_t size = read_size(header.subspan(kForm.size_at));
    const std::size_t around = kForm.framed ? kForm.header + kTrailer : 0;
    return std::min(left, size - std::min(size, around));
}

std::vector<Piece> split(Bytes data) {
    std::vector<Piece> pieces;
    while (data.size() >= kForm.header) {
        const Bytes header = data.first(kForm.header);
        data = data.subspan(kForm.header);
        const Bytes body = data.first(body_size(header, data.size()));
        data = data.subspan(body.size());
        data = data.subspan(std::min(kTrailer, data.size()));
        pieces.push_back(
            {.header = {header.begin(), header.end()}, .body = {body.begin(), body.end()}});
    }
    return pieces;
}

Buffer join(Bytes first, std::vector<Piece>& pieces, bool sizes_fit) {
    Buffer out(first.begin(), first.end());
    for (Piece& piece : pieces) {
        if (kForm.framed) {
            piece.body.resize((piece.body.size() + 3) / 4 * 4); // pcapng
        }
        const std::span<std::uint8_t> field(piece.header.data() + kForm.size_at, kForm.size_bytes);
        if (sizes_fit) {
            write_size(field, piece.body.size() + (kForm.framed ? kForm.header + kTrailer : 0));
        }
        out.insert(out.end(), piece.header.begin(), piece.header.end());
        out.insert(out.end(), piece.body.begin(), piece.body.end());
        out.insert(out.end(), field.begin(), field.begin() + kTrailer);
    }
    return out;
}

void mutate(Buffer& bytes, std::size_t more) {
    const std::size_t size = bytes.size();
    bytes.resize(size + more);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
}

void change(std::vector<Piece>& pieces, std::minstd_rand& random) {
    constexpr std::size_t kMore = 64;
    const auto any = [&] { return random() % pieces.size(); };
    Piece& piece = pieces[any()];
    switch (random() % 8) {
    case 0:
        pieces.push_back(Piece(piece));
        break;
    case 1:
        std::swap(piece, pieces[any()]);
        break;
    case 2:
        std::swap(piece, pieces.back());
        pieces.pop_back();
        break;
    case 3:
        mutate(piece.header, 0);
        piece.header.resize(kForm.header);
        break;
    default:
        mutate(piece.body, kMore);
    }
}

} // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
    std::minstd_rand random(seed);
    const std::size_t before = std::min(kForm.first, size);
    auto pieces = split(Bytes(data, size).subspan(before));
    if (pieces.empty() || random() % 6 == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    change(pieces, random);
    const Buffer out = join(Bytes(data, before), pieces, random() % 16 != 0);
    const std::size_t kept = std::min(out.size(), max_size);
    std::copy_n(out.begin(), kept, data);
    return kept;
}
