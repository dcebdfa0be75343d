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
#include "core/base/text.hh" // IWYU pragma: export

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

    std::string kind_;
    std::string place_;
    std::vector<Argument> list_;
    std::vector<std::string> known_; ///< asked for so far
};

} // namespace reprise::rules
