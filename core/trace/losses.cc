#include "core/trace/losses.hh"

#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/tally.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {
namespace {

constexpr double kTold = 0.001;

constexpr std::string_view kLookAtWriter = "look at what wrote the trace";

/// What forms count besides.
constexpr std::array<CountKind, 7> kFormKinds{{
    {"long_message", "messages of more than 65,535 bytes",
     "they are not DNS messages; check the program that wrote the trace"},
    {"dnstap_bad_frame", "dnstap frames that cannot be read", kLookAtWriter},
    {"cdns_bad_value", "C-DNS items with invalid values", kLookAtWriter},
    {"cdns_bad_name", "C-DNS items with invalid names", kLookAtWriter},
    {"cdns_bad_index", "C-DNS items that refer to nothing", kLookAtWriter},
    {"dnstap_no_message", "frames without a DNS message"},
    {"dnstap_unknown_type", "frames of an unknown type"},
}};

struct Unread {
    std::uint64_t count = 0;
    const CountKind* kind = nullptr;
    double share = 0; ///< of itself and the messages read

    [[nodiscard]] std::string line() const {
        return fmt::format("{} {} ({:.1f} %): {}{}{}", kind->name, count, share * 100, kind->what,
                           kind->hint.empty() ? "" : "; ", kind->hint);
    }
};

/// The largest first.
std::vector<Unread> find(const Counters& counters, std::uint64_t messages) {
    std::vector<Unread> found;
    const auto look_for = [&](const CountKind& kind) {
        const auto counter = counters.find(kind.name);
        if (!kind.what.empty() && counter != counters.end() && counter->second > 0) {
            const std::uint64_t count = counter->second;
            found.insert(
                std::ranges::upper_bound(found, count, std::greater{}, &Unread::count),
                {.count = count,
                 .kind = &kind,
                 .share = static_cast<double>(count) / static_cast<double>(messages + count)});
        }
    };
    std::ranges::for_each(kCountKinds, look_for);
    std::ranges::for_each(kFormKinds, look_for);
    return found;
}

/// `all`: also of what is no loss, or too little to be told.
std::vector<std::string> lines(const Counters& counters, std::uint64_t messages, bool all) {
    std::vector<std::string> out;
    for (const Unread& unread : find(counters, messages)) {
        if (all || (!unread.kind->hint.empty() && unread.share > kTold)) {
            out.push_back(unread.line());
        }
    }
    return out;
}

std::string suffix(const std::vector<std::string>& lines) {
    return lines.empty() ? "" : fmt::format("; {}", fmt::join(lines, "; "));
}

} // namespace

std::vector<std::string> losses(const Counters& counters, std::uint64_t messages) {
    return lines(counters, messages, false);
}

std::string losses_suffix(const Counters& counters, std::uint64_t messages) {
    return suffix(lines(counters, messages, false));
}

std::string unread_suffix(const Counters& counters, std::uint64_t messages) {
    return suffix(lines(counters, messages, true));
}

std::string left_out(const Counters& counters) {
    std::vector<std::string> parts;
    for (const Unread& unread : find(counters, 0)) {
        parts.push_back(
            fmt::format("{} {} ({})", unread.kind->name, unread.count, unread.kind->what));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

} // namespace reprise::trace
