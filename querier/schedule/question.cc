#include "querier/schedule/question.hh"

#include "core/base/ascii.hh"
#include "core/base/bytes.hh"
#include "core/dns/message.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::querier {
namespace {

constexpr size_t kMaxQuestion = 255 + 4;

} // namespace

std::uint64_t question_hash(Bytes message) {
    const auto question = parse_question(message);
    if (!question || question->raw.size() > kMaxQuestion) {
        return 0;
    }
    // Only the name is folded: type and class 0x41 are not 0x61.
    std::array<std::uint8_t, kMaxQuestion> folded{};
    const Bytes name = question->name;
    std::ranges::transform(name, folded.begin(), Lower{});
    std::ranges::copy(question->raw.subspan(name.size()),
                      folded.begin() + static_cast<std::ptrdiff_t>(name.size()));
    return std::max<std::uint64_t>(XXH3_64bits(folded.data(), question->raw.size()), 1);
}

std::uint16_t message_id(Bytes message) { return Cursor(message).u16be(); }

} // namespace reprise::querier
