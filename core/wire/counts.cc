#include "core/wire/counts.hh"

#include "core/wire/replay.pb.h"

#include <cstdint>
#include <string_view>

namespace reprise {

Counts& Counts::operator+=(const Counts& more) {
    fields([&](std::string_view, auto member, std::string_view) { this->*member += more.*member; });
    return *this;
}

void set_counts(google::protobuf::RepeatedField<std::uint64_t>& values, const Counts& counts) {
    values.Clear();
    Counts::fields(
        [&](std::string_view, auto member, std::string_view) { values.Add(counts.*member); });
}

Counts read_counts(const google::protobuf::RepeatedField<std::uint64_t>& values) {
    Counts counts;
    int at = 0;
    Counts::fields([&](std::string_view, auto member, std::string_view) {
        if (at < values.size()) {
            counts.*member = values.Get(at++);
        }
    });
    return counts;
}

} // namespace reprise
