#include "core/trace/forms/query_source.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {

namespace {

constexpr size_t kMostQueries = 65'536;

std::uint64_t key_of(const Endpoint& source, const Endpoint& destination, Bytes message) {
    const std::hash<Endpoint> ends;
    const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
    return (ends(source) * 31 + ends(destination)) * 31 + std::hash<std::string_view>{}(text);
}

} // namespace

IpAddress nobody(bool ipv6) {
    IpAddress address;
    address.family = ipv6 ? 6 : 4;
    return address;
}

IpAddress example_server(bool ipv6) {
    constexpr std::array<std::uint8_t, 4> kFour{192, 0, 2, 53};
    constexpr std::array<std::uint8_t, 16> kSix{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0,
                                                0,    0,    0,    0,    0, 0, 0, 0x53};
    return ipv6 ? IpAddress::v6(kSix.data()) : IpAddress::v4(kFour.data());
}

void RecentQueries::add(const Endpoint& source, const Endpoint& destination, Bytes message) {
    const std::uint64_t key = key_of(source, destination, message);
    ++counts_[key];
    order_.push_back(key);
    if (order_.size() > kMostQueries) {
        forget(order_.front());
        order_.pop_front();
    }
}

bool RecentQueries::take(const Endpoint& source, const Endpoint& destination, Bytes message) {
    const std::uint64_t key = key_of(source, destination, message);
    const bool known = counts_.contains(key);
    forget(key);
    return known;
}

void RecentQueries::forget(std::uint64_t key) {
    const auto found = counts_.find(key);
    if (found != counts_.end() && --found->second == 0) {
        counts_.erase(found);
    }
}

bool QuerySource::next(Query& query) {
    do {
        if (!trouble_.empty() || !next_query(query)) {
            return false;
        }
        ++items_;
    } while (query.is_close() && !closes_);
    good_ += query.is_close() ? 0U : 1U;
    return true;
}

bool QuerySource::fail(const std::string& place, const std::string& what) {
    trouble_ = fmt::format("{}{}{} ({} {} good)", place, place.empty() ? "" : ", ", what, good_,
                           good_ == 1 ? "query was" : "queries were");
    return false;
}

} // namespace reprise::trace
