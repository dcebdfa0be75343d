#include "querier/schedule/matcher.hh"

#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "querier/carrier/carrier.hh"
#include "querier/schedule/pending_queries.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kMaxQuestion = 255 + 4;
constexpr size_t kFewestBuckets = 1024;
constexpr size_t kMostBuckets = size_t{1} << 20U;
constexpr std::uint8_t kFormErr = 1; // RFC 1035, section 4.1.1

size_t bucket_count(size_t in_flight_limit) {
    return std::bit_ceil(std::clamp(in_flight_limit, kFewestBuckets, kMostBuckets));
}

/// Milliseconds modulo 2^32; compared by signed difference.
std::uint32_t to_ms(Nanoseconds time) { return static_cast<std::uint32_t>(time / kMillisecond); }

/// Zero bytes in large pages where the kernel has some: keys are spread over all of them.
void* zeroed(size_t size) {
    constexpr size_t kLargePage = 2UL << 20U;
    const size_t alignment = size >= kLargePage ? kLargePage : 64;
    void* const memory =
        std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    if (size >= kLargePage) {
        madvise(memory, size, MADV_HUGEPAGE);
    }
    std::memset(memory, 0, size);
    return memory;
}

} // namespace

EndedQueries::EndedQueries(Nanoseconds linger, unsigned bits)
    : linger_ms_(to_ms(linger)), set_mask_((std::uint64_t{1} << bits) / kWays - 1),
      entries_(static_cast<Entry*>(zeroed((size_t{1} << bits) * sizeof(Entry)))) {}

bool EndedQueries::expired(const Entry& entry, std::uint32_t now_ms) {
    return entry.key == 0 || static_cast<std::int32_t>(entry.expires_ms - now_ms) <= 0;
}

void EndedQueries::add(std::uint64_t key, bool answered, Nanoseconds now) {
    key = std::max<std::uint64_t>(key, 1);
    const std::uint32_t now_ms = to_ms(now);
    const std::span set(set_of(key), kWays);
    auto entry = std::ranges::find(set, key, &Entry::key);
    if (entry == set.end()) {
        // An empty or expired place has the most negative time left, so the smallest is the one to
        // take.
        entry = std::ranges::min_element(set, {}, [now_ms](const Entry& e) {
            return expired(e, now_ms) ? INT32_MIN
                                      : static_cast<std::int32_t>(e.expires_ms - now_ms);
        });
        *entry = {.key = key, .expires_ms = 0, .awaited = 0};
    } else if (expired(*entry, now_ms)) {
        entry->awaited = 0;
    }
    entry->expires_ms = now_ms + linger_ms_;
    entry->awaited += answered ? 0 : 1;
}

ReplyKind EndedQueries::take(std::uint64_t key, Nanoseconds now) {
    key = std::max<std::uint64_t>(key, 1);
    const std::span set(set_of(key), kWays);
    const auto entry = std::ranges::find(set, key, &Entry::key);
    if (entry == set.end() || expired(*entry, to_ms(now))) {
        return ReplyKind::kUnmatched;
    }
    if (entry->awaited > 0) {
        --entry->awaited;
        return ReplyKind::kLate;
    }
    return ReplyKind::kDuplicate;
}

std::uint64_t question_hash(Bytes message, std::uint16_t* type) {
    const auto question = parse_question(message);
    if (!question || question->raw.size() > kMaxQuestion) {
        return 0;
    }
    if (type != nullptr) {
        *type = question->type;
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

Matcher::Matcher(PendingQueries& queries, size_t in_flight_limit, Nanoseconds linger)
    : queries_(queries), most_buckets_(bucket_count(in_flight_limit)), mask_(kFewestBuckets - 1),
      by_key_(kFewestBuckets), by_id_(kFewestBuckets), ended_queries_(linger) {}

void Matcher::grow() {
    mask_ = by_key_.size() * 2 - 1;
    // What was in one list goes to two, each in its old order.
    const auto spread = [this]<typename List>(std::vector<List>& lists, const auto& hash) {
        for (List& list : std::exchange(lists, std::vector<List>(mask_ + 1))) {
            while (!list.empty()) {
                const std::uint32_t at = list.front();
                list.remove(queries_, at);
                lists[hash(queries_[at]) & mask_].push_back(queries_, at);
            }
        }
    };
    spread(by_key_, key_of);
    spread(by_id_, [](const PendingQuery& query) { return id_hash(query.owner, query.wire_id); });
}

std::uint64_t Matcher::id_hash(Owner owner, std::uint16_t id) {
    return mix_bits((owner * kGoldenStep) + id);
}

std::uint64_t Matcher::key_hash(Owner owner, std::uint16_t id, std::uint64_t question) {
    return mix_bits(id_hash(owner, id) ^ question);
}

void Matcher::add(std::uint32_t index) {
    if (++count_ > by_key_.size() && by_key_.size() < most_buckets_) {
        grow();
    }
    PendingQuery& pending = queries_[index];
    const std::uint64_t key = key_of(pending);
    ended_queries_.prefetch(key); // it will end soon
    by_key_[key & mask_].push_back(queries_, index);
    by_id_[id_hash(pending.owner, pending.wire_id) & mask_].push_back(queries_, index);
    pending.keyed = true;
}

void Matcher::remove(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.keyed) {
        by_key_[key_of(pending) & mask_].remove(queries_, index);
        by_id_[id_hash(pending.owner, pending.wire_id) & mask_].remove(queries_, index);
        pending.keyed = false;
        --count_;
    }
}

void Matcher::end(std::uint32_t index, bool answered, Nanoseconds now) {
    const PendingQuery& pending = queries_[index];
    if (pending.keyed) {
        ended_queries_.add(key_of(pending), answered, now);
        if (!answered && pending.question != 0) {
            ended_queries_.add(key_hash(pending.owner, pending.wire_id, 0), false, now);
        }
        remove(index);
    }
}

std::uint32_t Matcher::find(Owner owner, std::uint16_t id, std::uint64_t question) const {
    std::uint32_t at = by_key_[key_hash(owner, id, question) & mask_].front();
    for (; at != kNone; at = KeyList::after(queries_, at)) {
        const PendingQuery& pending = queries_[at];
        if (pending.question == question && pending.wire_id == id && pending.owner == owner) {
            return at;
        }
    }
    return kNone;
}

std::uint32_t Matcher::find_by_id(Owner owner, std::uint16_t id) const {
    std::uint32_t at = by_id_[id_hash(owner, id) & mask_].front();
    while (at != kNone && (queries_[at].wire_id != id || queries_[at].owner != owner)) {
        at = IdList::after(queries_, at);
    }
    return at;
}

bool Matcher::id_in_use(Owner owner, std::uint16_t id) const {
    return find_by_id(owner, id) != kNone;
}

std::uint32_t Matcher::find_for(Owner owner, const DnsHeader& header,
                                std::uint64_t question) const {
    std::uint32_t pending = find(owner, header.id, question);
    const bool plain = header.rcode() == 0 && header.opcode() == 0;
    if (pending == kNone && question != 0) {
        pending = find(owner, header.id, 0);
    } else if (pending == kNone && !plain) {
        pending = find_by_id(owner, header.id);
    }
    return pending;
}

Matcher::Match Matcher::match_broken(Owner owner, const DnsHeader& header,
                                     std::uint64_t question) const {
    std::uint32_t pending = find(owner, header.id, 0);
    if (pending == kNone && question != 0 && header.rcode() == kFormErr) {
        pending = find(owner, header.id, question);
    }
    return {.kind = pending == kNone ? Kind::kMalformed : Kind::kAnswer, .pending = pending};
}

Matcher::Match Matcher::match(Owner owner, Bytes reply, size_t size, Nanoseconds now) {
    const auto header = parse_header(reply);
    if (owner == 0 || (header && !header->is_response())) {
        return {};
    }
    if (!header) {
        return {.kind = Kind::kMalformed};
    }
    std::uint16_t type = 0;
    const std::uint64_t question = question_hash(reply, &type);
    const MessageEnd end = message_end(reply, size);
    if ((question == 0 && header->questions > 0) || end == MessageEnd::kBroken) {
        return match_broken(owner, *header, question);
    }
    const std::uint32_t pending = find_for(owner, *header, question);
    if (pending != kNone) {
        if (question != queries_[pending].question) {
            ended_queries_.add(key_hash(owner, header->id, question), true, now);
        } else if ((owner & 0xffffU) == kOwnerConnection &&
                   (type == kTypeAxfr || type == kTypeIxfr)) {
            // The first message of a zone transfer: the others need not repeat its question (RFC
            // 5936 section 2.2.1, RFC 1995).
            ended_queries_.add(key_hash(owner, header->id, 0), true, now);
        }
        return {
            .kind = Kind::kAnswer, .pending = pending, .trailing = end == MessageEnd::kTrailing};
    }
    return {.kind = ended_queries_.take(key_hash(owner, header->id, question), now)};
}

} // namespace reprise::querier
