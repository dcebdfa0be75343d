// name: the name that is asked for. One change a rule, each made of the old name's parts.

#include "core/base/bytes.hh"
#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/message/message_rule.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::rules {
namespace {

Name read_name(Arguments& arguments, std::string_view key, const std::string& text) {
    auto name = parse_name(text);
    if (!name) {
        arguments.fail(key, fmt::format("\"{}\" is not a name: labels have 1 to 63 bytes, the "
                                        "whole at most 255",
                                        text));
    }
    return *name;
}

Name read_name(Arguments& arguments, std::string_view key) {
    return read_name(arguments, key, arguments.get_text(key).value_or("."));
}

/// A change of names that is the same for every query.
class NameRule : public MessageRule {
protected:
    using MessageRule::MessageRule;

    /// Fills `out`; false where the name is none of this rule's.
    virtual bool rename(Bytes old, Name& out) = 0;

    /// The last rename() was made use of.
    virtual void used() {}

private:
    Edit edit(Query& query, const MessageLayout& layout, Batch& batch) final {
        Name name;
        if (layout.name_end != 0 && !rename(question_name(query.message, layout), name)) {
            return Edit::kUnchanged;
        }
        const Edit done = set_name(batch, query.message, layout, name.bytes());
        if (done == Edit::kChanged) {
            used();
        }
        return done;
    }
};

/// A first label that no other query has: prefix and a number in hexadecimal, at least 8 digits so
/// that sizes stay equal.
class UniqueName final : public NameRule {
public:
    UniqueName(Arguments& arguments, const RuleSettings& settings)
        : NameRule(arguments, settings), label_(read_label(arguments)), prefix_(label_.size()) {
        if (!settings.again) {
            spdlog::warn(
                "event=unique_names note=\"every name gets a label of {} bytes more: queries "
                "at a zone's apex become queries below it, answers change, messages grow\"",
                1 + prefix_ + kDigits);
        }
    }

private:
    static constexpr size_t kDigits = 8;
    static constexpr size_t kMostDigits = 16;

    static std::string read_label(Arguments& arguments) {
        constexpr size_t kMost = Name::kMostLabel - kMostDigits;
        const auto text = arguments.get_text("unique").value_or(".");
        const Name name = read_name(arguments, "unique", text);
        const Bytes label = name.labels();
        if (label.empty() || size_t{label[0]} + 1 != label.size() || label[0] > kMost) {
            arguments.fail("unique", fmt::format("\"{}\" is not the beginning of a label; give at "
                                                 "most {} bytes, without a dot",
                                                 text, kMost));
        }
        return {label.begin() + 1, label.end()};
    }

    bool rename(Bytes old, Name& out) override {
        std::array<char, kMostDigits> digits{};
        char* const end = std::to_chars(digits.begin(), digits.end(), count_, 16).ptr;
        const auto size = static_cast<size_t>(end - digits.begin());
        label_.resize(prefix_);
        label_.append(kDigits - std::min(size, kDigits), '0').append(digits.begin(), end);
        out.add_label(label_);
        out.add(old);
        return true;
    }

    void used() override { ++count_; }

    std::string label_; ///< the digits change
    size_t prefix_;
    std::uint64_t count_ = 0;
};

class PrefixedName final : public NameRule {
public:
    PrefixedName(Arguments& arguments, const RuleSettings& settings)
        : NameRule(arguments, settings), name_(read_name(arguments, "prefix")) {
        if (name_.labels().empty()) {
            arguments.fail("prefix", "is the root, which adds nothing; give a label");
        }
    }

private:
    bool rename(Bytes old, Name& out) override {
        out.add(name_.labels());
        out.add(old);
        return true;
    }

    Name name_;
};

/// Names at or below a zone move to another; the root's are all names.
class MovedName final : public NameRule {
public:
    MovedName(Arguments& arguments, const RuleSettings& settings, const Name& from, const Name& to)
        : NameRule(arguments, settings), from_(from), to_(to) {
        from_.lower();
    }

private:
    bool rename(Bytes old, Name& out) override {
        const Bytes from = from_.bytes();
        if (!ends_in(old, from)) {
            return false;
        }
        out.add(old.first(old.size() - from.size()));
        out.add(to_.bytes());
        return true;
    }

    Name from_;
    Name to_;
};

class FixedName final : public NameRule {
public:
    FixedName(Arguments& arguments, const RuleSettings& settings)
        : NameRule(arguments, settings), name_(read_name(arguments, "fixed")) {}

private:
    bool rename(Bytes /*old*/, Name& out) override {
        out.add(name_.bytes());
        return true;
    }

    Name name_;
};

/// Letters in lower or upper case, or each at random (draft-vixie-dnsext-dns0x20). In place; bytes
/// of length are below the letters.
class CasedName final : public MessageRule {
public:
    CasedName(Arguments& arguments, const RuleSettings& settings)
        : MessageRule(arguments, settings), random_(settings.seed) {
        const auto word = arguments.get_word("case", {"0x20", "lower", "upper"});
        draws_ = word == "0x20";
        bits_ = word == "lower" ? ~std::uint64_t{0} : 0;
    }

private:
    static constexpr std::uint8_t kCaseBit = 0x20;

    /// The case of 64 bytes, from the lowest bit on: 1 is lower.
    std::uint64_t bits() { return draws_ ? random_.bits() : bits_; }

    Edit edit(Query& query, const MessageLayout& layout, Batch& /*batch*/) override {
        if (layout.name_end == 0) {
            return layout.header && !layout.asks ? Edit::kNoQuestion : Edit::kMalformed;
        }
        const std::span<std::uint8_t> message = writable(query.message);
        std::uint64_t left = 0;
        unsigned changed = 0;
        for (size_t i = kDnsHeaderSize; i < layout.name_end; ++i, left >>= 1U) {
            left = (i - kDnsHeaderSize) % 64 == 0 ? bits() : left;
            std::uint8_t& byte = message[i];
            const unsigned small = byte | kCaseBit;
            const unsigned wanted = (left & 1U) != 0 ? small : small ^ kCaseBit;
            const unsigned flip = small >= 'a' && small <= 'z' ? byte ^ wanted : 0U;
            byte = static_cast<std::uint8_t>(byte ^ flip);
            changed |= flip;
        }
        return changed != 0 ? Edit::kChanged : Edit::kUnchanged;
    }

    Random random_;
    bool draws_ = false;
    std::uint64_t bits_ = 0;
};

std::unique_ptr<Rule> make_zone(Arguments& arguments, const RuleSettings& settings) {
    const auto names = arguments.get_list("zone");
    if (names.size() != 2) {
        arguments.fail("zone", "takes two names; give zone=FROM,TO");
    }
    return std::make_unique<MovedName>(arguments, settings, read_name(arguments, "zone", names[0]),
                                       read_name(arguments, "zone", names[1]));
}

std::unique_ptr<Rule> make_suffix(Arguments& arguments, const RuleSettings& settings) {
    return std::make_unique<MovedName>(arguments, settings, read_name(arguments, "suffix", "."),
                                       read_name(arguments, "suffix"));
}

constexpr std::array<std::pair<std::string_view, decltype(RuleKind::make)>, 6> kChanges{
    {{"unique", make<UniqueName>},
     {"prefix", make<PrefixedName>},
     {"suffix", make_suffix},
     {"zone", make_zone},
     {"case", make<CasedName>},
     {"fixed", make<FixedName>}}};

/// The one change that is asked for.
std::unique_ptr<Rule> make_name(Arguments& arguments, const RuleSettings& settings) {
    decltype(RuleKind::make) found = nullptr;
    std::string_view by;
    for (const auto& [key, make_change] : kChanges) {
        arguments.get_list(key); // known, so that a wrong key's nearest is found among them
        if (arguments.has(key)) {
            if (found != nullptr) {
                arguments.fail(key, fmt::format("contradicts {}; give each a rule of its own", by));
            }
            found = make_change;
            by = key;
        }
    }
    if (found == nullptr) {
        arguments.fail("",
                       "no change; give one of unique=, prefix=, suffix=, zone=, case=, fixed=");
    }
    return found(arguments, settings);
}

} // namespace

RuleKind name_kind() {
    return {.name = "name",
            .first_key = "fixed",
            .help = "Query names, one of: unique=LABEL (with a number, as a new first label), "
                    "prefix=LABEL, suffix=NAME, zone=FROM,TO, case=0x20|lower|upper, fixed=NAME",
            .make = make_name,
            .sets = {"fixed", "case"}};
}

} // namespace reprise::rules
