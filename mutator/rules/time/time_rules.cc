// Rules on time. Those that set every query's time (gap, poisson, profile) take no share and no
// filter: two clocks in one trace have no order.

#include "core/base/clock.hh"
#include "core/base/numbers.hh"
#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"
#include "mutator/rules/time/arrival_rule.hh"
#include "mutator/rules/time/rate_profile.hh"
#include "mutator/rules/time/speed_rule.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr double kMostRate = 1e9; ///< queries/s
constexpr size_t kMostPoints = 10'000;

/// Of trace time that is held in memory to restore the order.
constexpr double kMostJitter = 60e6; ///< us either way
constexpr Nanoseconds kMostHeld = 3600 * kSecond;

double need_number(Arguments& arguments, std::string_view key, double low, double high) {
    const auto value = arguments.get_number(key, low, high);
    if (!value) {
        arguments.fail({}, fmt::format("has no {}=; give one from {} to {}", key, low, high));
    }
    return *value;
}

void need_all(Arguments& arguments, std::uint64_t seed) {
    if (!arguments.takes_all()) {
        arguments.fail({}, "sets the time of every query and takes no share and no where; leave "
                           "them out");
    }
    const Selector unused(arguments, seed); // its keys are known, so that share=100 passes
}

std::unique_ptr<Rule> make_speed(Arguments& arguments, const RuleSettings& settings) {
    const double factor = need_number(arguments, "factor", 1e-6, 1e6);
    return std::make_unique<SpeedRule>(Selector(arguments, settings.seed), factor);
}

std::unique_ptr<Rule> make_shift(Arguments& arguments, const RuleSettings& settings) {
    const auto text = arguments.get_text("seconds");
    const auto shift = text ? parse_seconds(*text, true) : std::nullopt;
    if (!shift) {
        arguments.fail("seconds", "must be seconds with at most 9 decimals, like 3600 or -0.5");
    }
    const bool all = arguments.takes_all();
    if (!all && (*shift > kMostHeld || *shift < -kMostHeld)) {
        arguments.fail("seconds", "with share or where is at most 3600 either way, as that much of "
                                  "the trace is held in memory; shift two files and merge them");
    }
    Selector selector(arguments, settings.seed);
    if (all) {
        return std::make_unique<ShiftRule>(std::move(selector), *shift);
    }
    return std::make_unique<DelayRule>(std::move(selector), *shift, *shift, settings.seed);
}

std::unique_ptr<Rule> make_jitter(Arguments& arguments, const RuleSettings& settings) {
    const double us = need_number(arguments, "us", 0, kMostJitter);
    const auto most = static_cast<Nanoseconds>(std::llround(us * 1e3));
    return std::make_unique<DelayRule>(Selector(arguments, settings.seed), -most, most,
                                       settings.seed);
}

std::unique_ptr<Rule> make_gap(Arguments& arguments, const RuleSettings& settings) {
    need_all(arguments, settings.seed);
    const double gap = need_number(arguments, "ms", 0, 1e9) * 1e6;
    return std::make_unique<ArrivalRule>(
        [gap](std::uint64_t number) { return static_cast<double>(number) * gap; });
}

std::unique_ptr<Rule> make_poisson(Arguments& arguments, const RuleSettings& settings) {
    need_all(arguments, settings.seed);
    const double gap = 1e9 / need_number(arguments, "rate", 1e-3, kMostRate);
    return std::make_unique<ArrivalRule>(
        [gap, random = Random(settings.seed), offset = 0.0](std::uint64_t number) mutable {
            offset += number == 0 ? 0 : random.exponential(gap);
            return offset;
        });
}

std::optional<double> number_of(std::string_view text) {
    const auto value = parse_number<double>(text);
    return value && *value >= 0 && *value <= kMostRate ? value : std::nullopt;
}

RatePoint point_of(const Arguments& arguments, std::string_view text) {
    const size_t colon = std::min(text.find(':'), text.size());
    const auto seconds = number_of(text.substr(0, colon));
    const auto rate =
        colon < text.size() ? number_of(text.substr(colon + 1)) : std::optional<double>();
    if (!seconds || !rate) {
        arguments.fail("points", fmt::format("\"{}\" is not SECONDS:RATE with numbers from 0 to "
                                             "1e9, like 60:5000",
                                             text));
    }
    return {.seconds = *seconds, .rate = *rate};
}

std::vector<RatePoint> points_of(Arguments& arguments) {
    std::vector<RatePoint> points;
    for (const std::string& text : arguments.get_list("points")) {
        points.push_back(point_of(arguments, text));
        if (points.size() > 1 && points.back().seconds < points[points.size() - 2].seconds) {
            arguments.fail("points", fmt::format("\"{}\" is earlier than the point before it; give "
                                                 "them in order",
                                                 text));
        }
    }
    if (points.empty() || points.size() > kMostPoints || points.back().rate <= 0) {
        arguments.fail("points", fmt::format("must be 1 to {} points, the last with a rate above 0",
                                             kMostPoints));
    }
    return points;
}

std::unique_ptr<Rule> make_profile(Arguments& arguments, const RuleSettings& settings) {
    need_all(arguments, settings.seed);
    RateProfile profile(points_of(arguments));
    const bool poisson = arguments.get_switch("poisson").value_or(false);
    return std::make_unique<ArrivalRule>([profile = std::move(profile), poisson,
                                          random = Random(settings.seed),
                                          count = 0.0](std::uint64_t number) mutable {
        count = poisson && number > 0 ? count + random.exponential(1) : static_cast<double>(number);
        return profile.time_of(count) * 1e9;
    });
}

} // namespace

std::vector<RuleKind> time_rules() {
    return {
        {"speed", "factor",
         "the gap before every query taken is divided by factor=: 2 plays twice as fast",
         make_speed},
        {"shift", "seconds",
         "times move by seconds=, which may be negative; with share or where the order is restored "
         "(up to 3600 s of the trace in memory)",
         make_shift},
        {"gap", "ms", "queries follow each other every ms= milliseconds, from the first one's time",
         make_gap},
        {"poisson", "rate",
         "queries arrive as a Poisson process of rate= queries/s, from the first one's time",
         make_poisson},
        {"jitter", "us",
         "times move by up to us= microseconds either way (at most 60000000: twice us= of the "
         "trace is in memory), drawn evenly; the order is restored",
         make_jitter},
        {"profile", "points",
         "queries arrive at a rate that changes: points=SECONDS:RATE,... from the first query, "
         "linear between them, equal seconds are a step, the last rate stays; poisson=on (off: "
         "evenly spaced)",
         make_profile},
    };
}

} // namespace reprise::mutator
