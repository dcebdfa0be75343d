#pragma once
// The continuous generator: one query for ever, from a number of sources in turn. What a server or
// the replay itself can do at most is measured with it, without a trace's own cost.

#include "core/base/address.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::controller {

inline constexpr std::uint32_t kMostGenerated = 16'000'000; ///< sources that fit into 10.0.0.0/8

/// What to ask: "NAME" (type A) or "NAME/TYPE", the type by its name or as a number ("TYPE65").
struct Question {
    Name name;
    std::uint16_t type = 0;
    std::string text;

    static std::optional<Question> parse(std::string_view text);
};

/// Source i has the address 10.0.0.1 + i (or 2001:db8::1 + i for an IPv6 server). Query n comes
/// from source n mod sources at time n / rate (0 without a rate); ids count up for each source, and
/// its port follows when they are through, so that keys repeat as late as can be.
class Generator {
public:
    Generator(const Question& question, std::uint32_t sources, const Endpoint& server, double rate,
              bool recursion_desired = false);

    /// Next message, good until the next call. There is no end.
    void next(Query& query);

    /// Whether each source has asked.
    [[nodiscard]] bool had_all() const { return next_ >= sources_; }

    [[nodiscard]] std::string description() const { return "generator of " + text_; }

private:
    std::string text_;
    std::uint32_t sources_;
    Endpoint server_;
    Prefix clients_;
    double rate_;
    std::vector<std::uint8_t> message_;
    std::uint64_t next_ = 0;
};

} // namespace reprise::controller
