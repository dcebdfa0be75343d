#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/time_arithmetic.hh"
#include "mutator/rules/volume/volume_rules.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprise::mutator {
namespace {

constexpr size_t kLabel = 12; ///< random characters: 36^12 names
constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::uint64_t kLowestPort = 1024;

/// 192.0.2.53 or 2001:db8::53 (RFC 5737, RFC 3849).
IpAddress documentation(bool v4) {
    constexpr std::array<std::uint8_t, 4> kFour{192, 0, 2, 53};
    constexpr std::array<std::uint8_t, 16> kSix{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0,
                                                0,    0,    0,    0,    0, 0, 0, 0x53};
    return v4 ? IpAddress::v4(kFour.data()) : IpAddress::v6(kSix.data());
}

} // namespace

AttackRule::AttackRule(const Settings& settings)
    : settings_(settings), random_(settings.seed),
      destination_{documentation(settings.pool.prefix().address.is_v4()), kDnsPort} {}

void AttackRule::start(const Item& first) {
    started_ = true;
    first_ = added(std::max<Nanoseconds>(first.time, 0), settings_.at);
    if (settings_.poisson) {
        advance();
    }
}

// Evenly spaced ones are computed from their number, so that no rounding adds up.
void AttackRule::advance() {
    offset_ = settings_.poisson ? offset_ + random_.exponential(1e9 / settings_.rate)
                                : static_cast<double>(number_) * 1e9 / settings_.rate;
}

void AttackRule::write_message(std::span<std::uint8_t> out) {
    store16(&out[0], static_cast<unsigned>(random_.below(65'536)));
    store16(&out[2], settings_.recursion_desired ? 0x0100U : 0U);
    store16(&out[4], 1);
    std::ranges::fill(out.subspan(6, 6), std::uint8_t{0});
    size_t at = kDnsHeaderSize;
    if (!settings_.fixed) {
        out[at] = kLabel;
        for (size_t i = 1; i <= kLabel; ++i) {
            out[at + i] = static_cast<std::uint8_t>(kCharacters[random_.below(kCharacters.size())]);
        }
        at += kLabel + 1;
    }
    std::ranges::copy(settings_.name, out.subspan(at).begin());
    at += settings_.name.size();
    store16(&out[at], settings_.type);
    store16(&out[at + 2], 1);
}

Item AttackRule::make(Batch& batch) {
    Item item;
    item.time = added(first_, offset_);
    item.source = {settings_.pool.at(random_.below(settings_.sources)),
                   static_cast<std::uint16_t>(random_.between(kLowestPort, 65'535))};
    item.destination = destination_;
    item.transport = settings_.transport;
    const size_t label = settings_.fixed ? 0 : kLabel + 1;
    item.message = batch.allocate(kDnsHeaderSize + label + settings_.name.size() + 4);
    write_message(item.message);
    return item;
}

/// False where the batch is full before.
bool AttackRule::add_until(Nanoseconds time, Batch& batch) {
    while (offset_ < static_cast<double>(settings_.length) && added(first_, offset_) <= time) {
        if (full(batch)) {
            return false;
        }
        put(make(batch), batch);
        ++number_;
        advance();
    }
    return !full(batch);
}

bool AttackRule::work(Item& item, Batch& batch) {
    if (!started_) {
        start(item);
    }
    if (!found_destination_ && item.destination.address.family == destination_.address.family) {
        destination_ = item.destination;
        found_destination_ = true;
    }
    if (!add_until(item.time, batch)) {
        return false;
    }
    pass(item, batch);
    seen_ += item.is_close() ? 0U : 1U;
    return true;
}

RuleCounts AttackRule::counts() const {
    return {{"seen", seen_}, {"matched", 0}, {"changed", 0}, {"added", number_}};
}

} // namespace reprise::mutator
