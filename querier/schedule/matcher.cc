#include "querier/schedule/matcher.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/mix.hh"
#include "core/dns/message.hh"
#include "querier/schedule/ended_queries.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/question.hh"
#include "querier/schedule/slots.hh"
#include "querier/sockets/transport.hh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kFewestBuckets = 1024;
constexpr size_t kMostBuckets = size_t{1} << 20U;
constexpr std::uint8_t kFormErr = 1; // RFC 1035, section 4.1.1

size_t bucket_count(size_t in_flight_limit) {
    return std::bit_ceil(std::clamp(in_flight_limit, kFewestBuckets, kMostBuckets));
}

} // namespace

Matcher::Matcher(Slots& slots, size_t in_flight_limit, Nanoseconds linger)
    : slots_(slots), most_buckets_(bucket_count(in_flight_limit)), mask_(kFewestBuckets - 1),
      by_key_(kFewestBuckets), by_id_(kFewestBuckets), ended_queries_(linger) {}

void Matcher::grow() {
    const size_t size = by_key_.size() * 2;
    std::vector<KeyList> keys(size);
    std::vector<IdList> ids(size);
    mask_ = size - 1;
    // What was in one list goes to two, each in its old order.
    for (KeyList& list : by_key_) {
        while (!list.empty()) {
            const std::uint32_t at = list.front();
            const Slot& slot = slots_[at];
            list.remove(slots_, at);
            keys[key_hash(slot.owner, slot.wire_id, slot.question) & mask_].push_back(slots_, at);
        }
    }
    for (IdList& list : by_id_) {
        while (!list.empty()) {
            const std::uint32_t at = list.front();
            list.remove(slots_, at);
            ids[id_hash(slots_[at].owner, slots_[at].wire_id) & mask_].push_back(slots_, at);
        }
    }
    by_key_ = std::move(keys);
    by_id_ = std::move(ids);
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
    Slot& slot = slots_[index];
    const std::uint64_t key = key_hash(slot.owner, slot.wire_id, slot.question);
    ended_queries_.prefetch(key); // it will end soon
    by_key_[key & mask_].push_back(slots_, index);
    by_id_[id_hash(slot.owner, slot.wire_id) & mask_].push_back(slots_, index);
    slot.keyed = true;
}

void Matcher::remove(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.keyed) {
        by_key_[key_hash(slot.owner, slot.wire_id, slot.question) & mask_].remove(slots_, index);
        by_id_[id_hash(slot.owner, slot.wire_id) & mask_].remove(slots_, index);
        slot.keyed = false;
        --count_;
    }
}

void Matcher::end(std::uint32_t index, bool answered, Nanoseconds now) {
    const Slot& slot = slots_[index];
    if (slot.keyed) {
        ended_queries_.add(key_hash(slot.owner, slot.wire_id, slot.question), answered, now);
        if (!answered && slot.question != 0) {
            ended_queries_.add(key_hash(slot.owner, slot.wire_id, 0), false, now);
        }
        remove(index);
    }
}

std::uint32_t Matcher::find(Owner owner, std::uint16_t id, std::uint64_t question) const {
    std::uint32_t at = by_key_[key_hash(owner, id, question) & mask_].front();
    for (; at != kNone; at = KeyList::after(slots_, at)) {
        const Slot& slot = slots_[at];
        if (slot.question == question && slot.wire_id == id && slot.owner == owner) {
            return at;
        }
    }
    return kNone;
}

std::uint32_t Matcher::find_by_id(Owner owner, std::uint16_t id) const {
    std::uint32_t at = by_id_[id_hash(owner, id) & mask_].front();
    while (at != kNone && (slots_[at].wire_id != id || slots_[at].owner != owner)) {
        at = IdList::after(slots_, at);
    }
    return at;
}

bool Matcher::id_in_use(Owner owner, std::uint16_t id) const {
    return find_by_id(owner, id) != kNone;
}

std::uint32_t Matcher::find_for(Owner owner, const DnsHeader& header,
                                std::uint64_t question) const {
    std::uint32_t slot = find(owner, header.id, question);
    const bool plain = header.rcode() == 0 && header.opcode() == 0;
    if (slot == kNone && question != 0) {
        slot = find(owner, header.id, 0);
    } else if (slot == kNone && !plain) {
        slot = find_by_id(owner, header.id);
    }
    return slot;
}

Matcher::Match Matcher::match_broken(Owner owner, const DnsHeader& header,
                                     std::uint64_t question) const {
    std::uint32_t slot = find(owner, header.id, 0);
    if (slot == kNone && question != 0 && header.rcode() == kFormErr) {
        slot = find(owner, header.id, question);
    }
    return {.kind = slot == kNone ? Kind::kMalformed : Kind::kAnswer, .slot = slot};
}

Matcher::Match Matcher::match(Owner owner, Bytes reply, size_t size, Nanoseconds now) {
    const auto header = parse_header(reply);
    if (owner == 0 || (header && !header->is_response())) {
        return {};
    }
    if (!header) {
        return {.kind = Kind::kMalformed};
    }
    const std::uint64_t question = question_hash(reply);
    if ((question == 0 && header->questions > 0) || !is_whole(reply, size)) {
        return match_broken(owner, *header, question);
    }
    const std::uint32_t slot = find_for(owner, *header, question);
    if (slot != kNone) {
        if (question != slots_[slot].question) {
            ended_queries_.add(key_hash(owner, header->id, question), true, now);
        }
        return {.kind = Kind::kAnswer, .slot = slot};
    }
    switch (ended_queries_.take(key_hash(owner, header->id, question), now)) {
    case EndedQueries::Seen::kTimedOut:
        return {.kind = Kind::kLate};
    case EndedQueries::Seen::kAnswered:
        return {.kind = Kind::kDuplicate};
    case EndedQueries::Seen::kUnknown:
        break;
    }
    return {};
}

} // namespace reprise::querier
