#include "core/trace/losses.hh"

#include "core/base/text.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/tally.hh"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

constexpr double kTold = 0.001;

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
    for (const CountKind& kind : kCountKinds) {
        const auto counter = counters.find(kind.name);
        if (!kind.what.empty() && counter != counters.end() && counter->second > 0) {
            const std::uint64_t count = counter->second;
            found.insert(
                std::ranges::upper_bound(found, count, std::greater{}, &Unread::count),
                {.count = count,
                 .kind = &kind,
                 .share = static_cast<double>(count) / static_cast<double>(messages + count)});
        }
    }
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
    return lines.empty() ? "" : "; " + joined(lines, "; ");
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
    return joined(parts, ", ");
}

} // namespace reprise::trace
