#pragma once
// A rule as its user wrote it, on the command line or in a rule file, before it is understood.
//
//   command line   --edns size=1232,do=on,share=50,where.type=A,AAAA     one option a kind
//   rule file      [[rule]]                                              TOML
//                  kind = "edns"
//                  size = 1232
//                  share = 50
//                  where = { type = ["A", "AAAA"] }
//
// Both become the same list of keys with values. On the command line a piece without "=" continues
// the values of the key before it, or is the value of the kind's first key.

#include "core/base/error.hh"
#include "core/base/random.hh"
#include "core/base/text.hh" // IWYU pragma: export
#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {

/// A mistake in a rule: one line naming the rule's place and the hint. Exit status 2.
class RuleError : public UsageError {
public:
    using UsageError::UsageError;
};

struct Argument {
    std::string key; ///< "where.type" for a filter's
    std::vector<std::string> values;
    std::string place; ///< "rules.toml:12" or "--edns"
};

/// The arguments of one rule. Each get_ marks its key as known; finish() refuses the others.
class Arguments {
public:
    /// `kind` as "edns"; `place` of the rule itself.
    Arguments(std::string kind, std::string place, std::vector<Argument> list);

    [[nodiscard]] const std::string& kind() const { return kind_; }

    [[nodiscard]] const std::string& place() const { return place_; }

    /// As written, in order.
    [[nodiscard]] const std::vector<Argument>& list() const { return list_; }

    /// Whether the rule takes every query: neither a filter nor a share below 100.
    [[nodiscard]] bool takes_all() const;

    [[nodiscard]] bool has(std::string_view key) const;

    /// All values of a key; empty where it is not there.
    std::vector<std::string> get_list(std::string_view key);

    /// Exactly one value, as text.
    std::optional<std::string> get_text(std::string_view key);

    /// One of `words`, the nearest of which is named in the error.
    std::optional<std::string> get_word(std::string_view key,
                                        const std::vector<std::string>& words);

    /// Fails, with the nearest of `words`, where the word is none of them.
    void demand_word(std::string_view key, const std::string& word,
                     const std::vector<std::string>& words) const;

    std::optional<bool> get_switch(std::string_view key); ///< on, off, true, false

    /// A number within [low, high].
    std::optional<double> get_number(std::string_view key, double low, double high);
    std::optional<std::uint64_t> get_integer(std::string_view key, std::uint64_t low,
                                             std::uint64_t high);

    /// Throws RuleError where a key was never asked for, with the nearest known one.
    void finish() const;

    /// "PLACE: rule KIND, key KEY: `what`" (of an option "--KIND, key KEY: `what`") with the key's
    /// place where there is one; without the key's part where `key` is empty.
    [[noreturn]] void fail(std::string_view key, const std::string& what) const;

    /// For a rule without what it needs: the same of a misspelled key, which explains it, else
    /// `what`.
    [[noreturn]] void fail_lacking(const std::string& what) const;

private:
    [[nodiscard]] const Argument* find(std::string_view key) const;
    [[nodiscard]] std::vector<std::string> similar(const std::string& key) const;
    template <typename T>
    std::optional<T> get_between(std::string_view key, T low, T high, std::string_view what);

    std::string kind_;
    std::string place_;
    std::vector<Argument> list_;
    std::vector<std::string> known_; ///< asked for so far
};

// Values of keys that several rules share: prefixes, names, types, mixes, times. Each reader throws
// RuleError by Arguments::fail, naming the key and the nearest word.

/// A value that is drawn with probability weight / sum of weights.
struct Weighted {
    std::string value;
    double weight = 1;
};

/// "A:50,AAAA:50", one value, or several without weights (then all alike). Empty where the key is
/// not there.
std::vector<Weighted> get_mix(Arguments& arguments, std::string_view key);

/// Picks values by their weights, evenly: at every point each value was picked its share of the
/// time, within 16 picks. Random draws would be off by the square root of their number.
///
/// Every step gives each value its weight as credit and draws the one with most, which pays one.
/// What is drawn goes into a small pool from which values are picked at random: else the order
/// would repeat itself and could keep step with the trace, where clients ask for A and AAAA in
/// turn.
class WeightedPicker {
public:
    /// At least one; not negative, with a positive sum.
    WeightedPicker(const std::vector<Weighted>& mix, std::uint64_t seed)
        : credit_(mix.size()), random_(seed) {
        double sum = 0;
        for (const Weighted& one : mix) {
            sum += one.weight;
        }
        for (const Weighted& one : mix) {
            shares_.push_back(one.weight / sum);
        }
        std::ranges::generate(pool_, [this] { return draw(); });
    }

    /// Index of the next value.
    size_t pick() { return std::exchange(pool_[random_.bits() % pool_.size()], draw()); }

private:
    size_t draw() {
        for (size_t i = 0; i < shares_.size(); ++i) {
            credit_[i] += shares_[i];
        }
        const auto most = std::ranges::max_element(credit_);
        *most -= 1;
        return static_cast<size_t>(most - credit_.begin());
    }

    std::vector<double> shares_; ///< sum 1
    std::vector<double> credit_;
    std::array<size_t, 16> pool_{};
    Random random_;
};

Name name_value(const Arguments& arguments, std::string_view key, const std::string& text);

/// Values as names; in lower case for ends_in() where `lower`.
std::vector<Name> get_names(Arguments& arguments, std::string_view key, bool lower = false);

std::vector<Prefix> get_prefixes(Arguments& arguments, std::string_view key);

/// A mnemonic or TYPEnn.
std::uint16_t type_value(const Arguments& arguments, std::string_view key, const std::string& text);

/// A mnemonic or a number from 0 to 15.
std::uint8_t opcode_value(const Arguments& arguments, std::string_view key,
                          const std::string& text);

/// A transport by its name in Transport's text form.
Transport transport_value(const Arguments& arguments, std::string_view key,
                          const std::string& text);

/// A header flag, as its bit in the flags word.
std::uint16_t flag_value(const Arguments& arguments, std::string_view key, const std::string& text);

// Trace times with offsets; none falls below 0 or beyond what a trace may have.

inline constexpr Nanoseconds kLastTime = kEndOfTraceTime;

/// `base` (of a trace) and `offset`, exactly.
inline Nanoseconds added(Nanoseconds base, Nanoseconds offset) {
    Nanoseconds sum = 0;
    if (__builtin_add_overflow(base, offset, &sum)) {
        return offset > 0 ? kLastTime : 0;
    }
    return std::clamp<Nanoseconds>(sum, 0, kLastTime);
}

/// The same with the offset rounded to a nanosecond; doubles are exact to one for 104 days. One of
/// 146 years leaves the range.
inline Nanoseconds added(Nanoseconds base, double offset) {
    constexpr double kMost = 0x1p62;
    return offset < kMost
               ? added(base, static_cast<Nanoseconds>(std::llround(std::max(offset, -kMost))))
               : kLastTime;
}

/// The time, unless it left the range: queries that gather at its end have lost their spacing.
/// `hint` says what to change.
inline Nanoseconds in_range(Nanoseconds time, std::string_view rule, std::string_view hint) {
    if (time < 0 || time == kLastTime) {
        throw Error(fmt::format("rule {}: would move a query {}; {}", rule,
                                time < 0 ? "before 1970" : "behind the year 2149", hint));
    }
    return time;
}

} // namespace reprise::rules
