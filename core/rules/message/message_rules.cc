// edns, header, type and name: rules that edit messages.

#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/message/message_editor.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

/// Edits the message of a query that the selector took. Queries come in order.
using Editor = std::function<Edit(Query& query, const MessageLayout& layout, Batch& batch)>;

/// A rule that edits messages. Counts besides the usual ones, where not zero: "malformed",
/// "no_question", "too_long" and "compressed" are queries kept as they were (Edit says why);
/// "dropped" of "malformed" went with RuleSettings::drop_malformed; "signed" were changed though
/// their TSIG or SIG(0) no longer holds.
class MessageRule final : public Rule {
public:
    /// `read` reads the keys behind those of the selector.
    MessageRule(Arguments& arguments, const RuleSettings& settings,
                Editor (*read)(Arguments&, const RuleSettings&))
        : Rule(Selector(arguments, settings.seed, Closes::kNone)),
          drop_malformed_(settings.drop_malformed), edit_(read(arguments, settings)) {}

private:
    Outcome change(Query& query, Batch& batch) override {
        const MessageLayout layout = parse_layout(query.message);
        const Edit done = edit_(query, layout, batch);
        if (done == Edit::kChanged) {
            signed_ += layout.is_signed ? 1U : 0U;
            return Outcome::kChanged;
        }
        if (done != Edit::kUnchanged) {
            ++*kept_.at(static_cast<size_t>(done));
        }
        const bool dropped = done == Edit::kMalformed && drop_malformed_;
        dropped_ += dropped ? 1U : 0U;
        return dropped ? Outcome::kDropped : Outcome::kSame;
    }

    bool drop_malformed_;
    Editor edit_;
    /// By Edit.
    std::array<std::uint64_t*, 4> kept_{&rare_count("malformed"), &rare_count("no_question"),
                                        &rare_count("too_long"), &rare_count("compressed")};
    std::uint64_t& signed_ = rare_count("signed");
    std::uint64_t& dropped_ = rare_count("dropped");
};

/// RuleKind::make of a rule that edits messages.
template <Editor (*kRead)(Arguments&, const RuleSettings&)>
std::unique_ptr<Rule> make_editing(Arguments& arguments, const RuleSettings& settings) {
    return std::make_unique<MessageRule>(arguments, settings, kRead);
}

// edns: the OPT record and its options.

constexpr std::uint64_t kCookieUse = 0x636f6f6b; ///< of the seed; other than the selector's
constexpr std::uint64_t kSubnetUse = 0x737562;
constexpr std::uint64_t kMostBlock = 16'384; ///< TLS's record; RFC 8467 advises 128
constexpr size_t kCookieSize = 8;            ///< of a client's (RFC 7873)

constexpr std::array<std::string_view, 7> kEdnsChanges{"size",   "do",  "version", "nsid",
                                                       "cookie", "ecs", "padding"};

using OptionBytes = std::vector<std::uint8_t>;

OptionBytes read_cookie(const Arguments& arguments, const std::string& text) {
    OptionBytes bytes;
    if (!parse_hex(text, bytes)) {
        bytes.clear();
    }
    if (bytes.size() != kCookieSize && (bytes.size() < 16 || bytes.size() > 40)) {
        arguments.fail("cookie", fmt::format("\"{}\" is neither random nor off nor a cookie of 16 "
                                             "or 32 to 80 hexadecimal digits",
                                             text));
    }
    return bytes;
}

/// Family, source and scope prefix length, as many bytes of the address as the prefix needs.
OptionBytes subnet_option(const Prefix& prefix) {
    OptionBytes out{0, static_cast<std::uint8_t>(prefix.address.is_v4() ? 1 : 2),
                    static_cast<std::uint8_t>(prefix.bits), 0};
    const auto* address = prefix.address.bytes.data();
    out.insert(out.end(), address, address + (prefix.bits + 7) / 8);
    return out;
}

bool is_off(Arguments& arguments, std::string_view key) {
    const auto values = arguments.get_list(key);
    return values.size() == 1 && values.front() == "off";
}

/// What an OPT record is to become; options that differ by source are filled in by query.
class EdnsChange {
public:
    EdnsChange(Arguments& arguments, const RuleSettings& settings)
        : set_(arguments.get_switch("set")), cookie_key_(mixed_seed(settings.seed, kCookieUse)),
          subnet_key_(mixed_seed(settings.seed, kSubnetUse)) {
        read_fields(arguments);
        read_cookies(arguments);
        read_subnets(arguments);
        read_padding(arguments);
        check(arguments);
    }

    Edit operator()(Query& query, const MessageLayout& layout, Batch& batch) {
        if (set_ == false) {
            return remove_opt(batch, query.message, layout);
        }
        if (layout.whole && layout.opt == 0 && !adds_) {
            return Edit::kUnchanged;
        }
        fill(query.source.address);
        return set_opt(batch, query.message, layout, change_, scratch_);
    }

private:
    void read_fields(Arguments& arguments) {
        if (const auto size = arguments.get_integer("size", 0, 65'535)) {
            change_.udp_size = static_cast<std::uint16_t>(*size);
        }
        if (const auto version = arguments.get_integer("version", 0, 255)) {
            change_.version = static_cast<std::uint8_t>(*version);
        }
        change_.dnssec_ok = arguments.get_switch("do");
        adds_ = change_.udp_size || change_.version || change_.dnssec_ok.value_or(false) ||
                set_.value_or(false);
        if (const auto on = arguments.get_switch("nsid")) {
            want(kOptionNsid, !*on);
        }
    }

    void read_cookies(Arguments& arguments) {
        if (const auto text = arguments.get_text("cookie")) {
            const bool off = *text == "off";
            random_cookie_ = *text == "random";
            want(kOptionCookie, off,
                 off || random_cookie_ ? OptionBytes(kCookieSize) : read_cookie(arguments, *text));
        }
    }

    void read_subnets(Arguments& arguments) {
        if (is_off(arguments, "ecs")) {
            want(kOptionSubnet, true);
            return;
        }
        for (const Prefix& prefix : get_prefixes(arguments, "ecs")) {
            subnets_.push_back(subnet_option(prefix));
        }
        if (!subnets_.empty()) {
            want(kOptionSubnet, false, subnets_.front());
        }
    }

    void read_padding(Arguments& arguments) {
        if (is_off(arguments, "padding")) {
            want(kOptionPadding, true);
        } else if (const auto block = arguments.get_integer("padding", 1, kMostBlock)) {
            change_.padding_block = static_cast<size_t>(*block);
            adds_ = true;
        }
    }

    void check(const Arguments& arguments) {
        const auto* const key = std::ranges::find_if(
            kEdnsChanges, [&](std::string_view name) { return arguments.has(name); });
        if (key == kEdnsChanges.end() && !set_) {
            arguments.fail_lacking("nothing to set; give set=on|off, or size=1232, do=on, ...");
        }
        if (key != kEdnsChanges.end() && set_ == false) {
            arguments.fail(*key, "contradicts set=off, which leaves no OPT record to hold it");
        }
    }

    void want(std::uint16_t code, bool remove, const OptionBytes& value = {}) {
        change_.options.push_back({code, remove, value});
        adds_ = adds_ || !remove;
    }

    OptionBytes& value_of(std::uint16_t code) {
        return std::ranges::find(change_.options, code, &OptionChange::code)->value;
    }

    /// The options that a source chooses: its cookie and its subnet never change.
    void fill(const IpAddress& source) {
        if (random_cookie_) {
            const std::uint64_t cookie = source_key(source, cookie_key_);
            std::memcpy(value_of(kOptionCookie).data(), &cookie, kCookieSize);
        }
        if (subnets_.size() > 1) {
            value_of(kOptionSubnet) = subnets_[source_key(source, subnet_key_) % subnets_.size()];
        }
    }

    std::optional<bool> set_;
    bool adds_ = false; ///< an OPT record to queries without
    OptChange change_;
    bool random_cookie_ = false;
    std::vector<OptionBytes> subnets_;
    std::uint64_t cookie_key_;
    std::uint64_t subnet_key_;
    OptionBytes scratch_;
};

Editor edit_edns(Arguments& arguments, const RuleSettings& settings) {
    return EdnsChange(arguments, settings);
}

// header: flags and opcode of a query's header.

constexpr std::uint16_t kOpcodeMask = 0x7800;
constexpr unsigned kOpcodeShift = 11;

/// Bits to be replaced.
struct Flags {
    std::uint16_t mask = 0;
    std::uint16_t value = 0;
};

void want_flag(const Arguments& arguments, const std::string& key, const std::string& name, bool on,
               Flags& flags) {
    const std::uint16_t bit = flag_value(arguments, key, name);
    if ((flags.mask & bit) != 0) {
        arguments.fail(key, fmt::format("{} is there twice; set it once, on or off", name));
    }
    flags.mask |= bit;
    flags.value |= on ? bit : std::uint16_t{0};
}

Editor edit_header(Arguments& arguments, const RuleSettings& /*settings*/) {
    Flags flags;
    for (const std::string& word : arguments.get_list("set")) { // "rd,-cd": rd on, cd off
        const bool off = word.starts_with('-');
        want_flag(arguments, "set", off ? word.substr(1) : word, !off, flags);
    }
    for (const char* name : {"rd", "cd", "ad", "z"}) {
        if (const auto on = arguments.get_switch(name)) {
            want_flag(arguments, name, name, *on, flags);
        }
    }
    if (const auto word = arguments.get_text("opcode")) {
        const unsigned opcode = opcode_value(arguments, "opcode", *word);
        flags.mask |= kOpcodeMask;
        flags.value |= static_cast<std::uint16_t>(opcode << kOpcodeShift);
    }
    if (flags.mask == 0) {
        arguments.fail_lacking("nothing to set; give set=rd,-cd or opcode=NOTIFY");
    }
    return [flags](Query& query, const MessageLayout& /*layout*/, Batch& /*batch*/) {
        return set_flags(query.message, flags.mask, flags.value);
    };
}

// type: the type that is asked for, one or a mix.

constexpr std::uint64_t kTypeUse = 0x74797065; ///< of the seed; other than the selector's

Editor edit_type(Arguments& arguments, const RuleSettings& settings) {
    const auto mix = get_mix(arguments, "to");
    if (mix.empty()) {
        arguments.fail("", "no type to change to; give to=AAAA or to=A:50,AAAA:50");
    }
    const StickyMix<std::uint16_t> types(
        mix, mixed_seed(settings.seed, kTypeUse),
        [&](const std::string& text) { return type_value(arguments, "to", text); });
    const bool by_source = arguments.get_word("by", {"query", "source"}) == "source";
    return [types, picker = WeightedPicker(mix, settings.seed),
            by_source](Query& query, const MessageLayout& layout, Batch& /*batch*/) mutable {
        if (layout.name_end == 0) { // deals nothing
            return set_type(query.message, layout, 0);
        }
        return set_type(query.message, layout,
                        by_source ? types.draw(query.source.address)
                                  : types.values()[picker.pick()]);
    };
}

// name: the name that is asked for. One change a rule, each made of the old name's parts.

Name read_name(Arguments& arguments, std::string_view key) {
    return name_value(arguments, key, arguments.get_text(key).value_or("."));
}

/// Another name by `rename(old, number, out)`: it fills `out`, or returns false where the old name
/// is none of the rule's. `number` is how many queries were changed before.
template <typename Rename> Editor renamed(Rename rename) {
    return [rename = std::move(rename), number = std::uint64_t{0}](
               Query& query, const MessageLayout& layout, Batch& batch) mutable {
        Name name;
        if (layout.name_end != 0 && !rename(question_name(query.message, layout), number, name)) {
            return Edit::kUnchanged;
        }
        const Edit done = set_name(batch, query.message, layout, name.bytes());
        number += done == Edit::kChanged ? 1U : 0U;
        return done;
    };
}

/// A first label that no other query has: prefix and a number in hexadecimal, at least 8 digits so
/// that sizes stay equal.
Editor unique_name(Arguments& arguments, const RuleSettings& settings) {
    static constexpr size_t kDigits = 8;
    constexpr size_t kMostDigits = 16;
    constexpr size_t kMost = Name::kMostLabel - kMostDigits;
    const auto text = arguments.get_text("unique").value_or(".");
    const Name name = name_value(arguments, "unique", text);
    const Bytes label = name.labels();
    if (label.empty() || size_t{label[0]} + 1 != label.size() || label[0] > kMost) {
        arguments.fail("unique", fmt::format("\"{}\" is not the beginning of a label; give at "
                                             "most {} bytes, without a dot",
                                             text, kMost));
    }
    if (!settings.again) {
        spdlog::warn("event=unique_names note=\"every name gets a label of {} bytes more: queries "
                     "at a zone's apex become queries below it, answers change, messages grow\"",
                     label.size() + kDigits);
    }
    return renamed([unique = std::string(label.begin() + 1, label.end()),
                    prefix = size_t{label[0]}](Bytes old, std::uint64_t number, Name& out) mutable {
        std::array<char, kMostDigits> digits{};
        char* const end = std::to_chars(digits.begin(), digits.end(), number, 16).ptr;
        const auto size = static_cast<size_t>(end - digits.begin());
        unique.resize(prefix);
        unique.append(kDigits - std::min(size, kDigits), '0').append(digits.begin(), end);
        out.add_label(unique);
        out.add(old);
        return true;
    });
}

Editor prefixed_name(Arguments& arguments, const RuleSettings& /*settings*/) {
    const Name prefix = read_name(arguments, "prefix");
    if (prefix.labels().empty()) {
        arguments.fail("prefix", "is the root, which adds nothing; give a label");
    }
    return renamed([prefix](Bytes old, std::uint64_t /*number*/, Name& out) {
        out.add(prefix.labels());
        out.add(old);
        return true;
    });
}

/// Names at or below a zone move to another; the root's are all names.
Editor moved_name(Name from, const Name& to) {
    from.lower();
    return renamed([from, to](Bytes old, std::uint64_t /*number*/, Name& out) {
        if (!ends_in(old, from.bytes())) {
            return false;
        }
        out.add(old.first(old.size() - from.bytes().size()));
        out.add(to.bytes());
        return true;
    });
}

Editor name_of_zone(Arguments& arguments, const RuleSettings& /*settings*/) {
    const auto names = arguments.get_list("zone");
    if (names.size() != 2) {
        arguments.fail("zone", "takes two names; give zone=FROM,TO");
    }
    return moved_name(name_value(arguments, "zone", names[0]),
                      name_value(arguments, "zone", names[1]));
}

Editor suffixed_name(Arguments& arguments, const RuleSettings& /*settings*/) {
    return moved_name(name_value(arguments, "suffix", "."), read_name(arguments, "suffix"));
}

Editor fixed_name(Arguments& arguments, const RuleSettings& /*settings*/) {
    return renamed(
        [name = read_name(arguments, "fixed")](Bytes /*old*/, std::uint64_t /*number*/, Name& out) {
            out.add(name.bytes());
            return true;
        });
}

/// Sets the case of a name's letters by `next()`, which gives that of 64 bytes, from the lowest bit
/// on: 1 is lower. Bytes of length are below the letters.
template <typename Next> Edit set_case(std::span<std::uint8_t> name, Next next) {
    constexpr std::uint8_t kCaseBit = 0x20;
    std::uint64_t lower = 0;
    unsigned changed = 0;
    for (size_t i = 0; i < name.size(); ++i, lower >>= 1U) {
        lower = i % 64 == 0 ? next() : lower;
        const unsigned small = name[i] | kCaseBit;
        const unsigned wanted = (lower & 1U) != 0 ? small : small ^ kCaseBit;
        const unsigned flip = small >= 'a' && small <= 'z' ? name[i] ^ wanted : 0U;
        name[i] = static_cast<std::uint8_t>(name[i] ^ flip);
        changed |= flip;
    }
    return changed != 0 ? Edit::kChanged : Edit::kUnchanged;
}

/// Letters in lower or upper case, or each at random (draft-vixie-dnsext-dns0x20). In place.
Editor cased_name(Arguments& arguments, const RuleSettings& settings) {
    const auto word = arguments.get_word("case", {"0x20", "lower", "upper"});
    return [random = Random(settings.seed), draws = word == "0x20",
            all = word == "lower" ? ~std::uint64_t{0} : 0](
               Query& query, const MessageLayout& layout, Batch& /*batch*/) mutable {
        if (layout.name_end == 0) {
            return layout.header && !layout.asks ? Edit::kNoQuestion : Edit::kMalformed;
        }
        const std::span<std::uint8_t> message = writable(query.message).first(layout.name_end);
        return set_case(message.subspan(kDnsHeaderSize),
                        [&] { return draws ? random.bits() : all; });
    };
}

using EditName = Editor (*)(Arguments&, const RuleSettings&);

constexpr std::array<std::pair<std::string_view, EditName>, 6> kNameChanges{
    {{"unique", unique_name},
     {"prefix", prefixed_name},
     {"suffix", suffixed_name},
     {"zone", name_of_zone},
     {"case", cased_name},
     {"fixed", fixed_name}}};

/// The one change that is asked for.
Editor edit_name(Arguments& arguments, const RuleSettings& settings) {
    EditName found = nullptr;
    std::string_view by;
    for (const auto& [key, edit] : kNameChanges) {
        arguments.get_list(key); // known, so that a wrong key's nearest is found among them
        if (arguments.has(key)) {
            if (found != nullptr) {
                arguments.fail(key, fmt::format("contradicts {}; give each a rule of its own", by));
            }
            found = edit;
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

std::vector<RuleKind> message_rules() {
    return {{.name = "edns",
             .first_key = "set",
             .help = "EDNS: set=on|off (the OPT record), size=BYTES, do=on|off, version=N, "
                     "nsid=on|off, cookie=random|HEX|off, ecs=PREFIX,...|off (several: drawn by "
                     "source), padding=BLOCK|off; what is set adds OPT where there is none",
             .make = make_editing<edit_edns>,
             .sets = {kEdnsChanges.begin(), kEdnsChanges.end()}},
            {.name = "header",
             .first_key = "set",
             .help = "Header flags: set=rd,-cd (aa tc rd ra z ad cd, - clears), or rd= cd= ad= "
                     "z=on|off; opcode=QUERY|IQUERY|STATUS|NOTIFY|UPDATE|DSO|N",
             .make = make_editing<edit_header>,
             .sets = {"rd", "cd", "ad", "z", "opcode"}},
            {.name = "name",
             .first_key = "fixed",
             .help = "Query names, one of: unique=LABEL (with a number, as a new first label), "
                     "prefix=LABEL, suffix=NAME, zone=FROM,TO, case=0x20|lower|upper, fixed=NAME",
             .make = make_editing<edit_name>,
             .sets = {"fixed", "case"}},
            {.name = "type",
             .first_key = "to",
             .help = "Query types: to=AAAA, or a mix to=A:50,AAAA:50, chosen evenly; with "
                     "by=source each source has one type",
             .make = make_editing<edit_type>,
             .sets = {"to"}}};
}

} // namespace reprise::rules
