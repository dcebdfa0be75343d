// Addresses of clients replaced prefix-preservingly: sources, those in ECS options and, where
// asked, destinations.

#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/source/source_addresses.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise::rules {
namespace {

constexpr size_t kEcsFixed = 4; ///< family, source and scope prefix lengths
constexpr size_t kMostKeyFile = 4096;

/// 64 hex digits, spaces around them allowed.
std::optional<CryptoPan::Key> parse_key(std::string_view text) {
    const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    const size_t last = text.find_last_not_of(" \t\r\n") + 1;
    text = text.substr(first, std::max(first, last) - first);
    CryptoPan::Key key{};
    std::vector<std::uint8_t> bytes;
    if (!parse_hex(text, bytes) || bytes.size() != key.size()) {
        return std::nullopt;
    }
    std::ranges::copy(bytes, key.begin());
    return key;
}

std::string read_key_file(const Arguments& arguments, const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::string text(kMostKeyFile, '\0');
    if (file) {
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
    }
    if (!file.is_open() || file.gcount() == 0) {
        arguments.fail("key", fmt::format("cannot read {}: {}", path,
                                          errno == 0 ? "it is empty"
                                                     : std::generic_category().message(errno)));
    }
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
}

// The key itself never stands in an error.
CryptoPan::Key read_key(Arguments& arguments) {
    const auto text = arguments.get_text("key");
    if (!text) {
        arguments.get_switch("destination");
        arguments.get_text("malformed");
        arguments.fail_lacking(
            "needs key=@FILE with 64 hex digits; make one with: openssl rand -hex 32");
    }
    const bool in_file = text->starts_with('@');
    const auto key = parse_key(in_file ? read_key_file(arguments, text->substr(1)) : *text);
    if (!key) {
        arguments.fail("key", "is not 64 hex digits (16 bytes key, 16 bytes pad); make one with: "
                              "openssl rand -hex 32");
    }
    return *key;
}

class AnonymizeRule : public Rule {
public:
    AnonymizeRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kAny, true)), pan_(read_key(arguments)),
          destination_(arguments.get_switch("destination").value_or(false)),
          keep_malformed_(arguments.get_word("malformed", {"keep", "drop"}) == "keep"),
          reverse_{parse_name("in-addr.arpa.").value_or(Name()),
                   parse_name("ip6.arpa.").value_or(Name())} {}

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        query.source.address = pan_.map(query.source.address);
        if (destination_) {
            query.destination.address = pan_.map(query.destination.address);
        }
        if (query.is_close() || change_message(writable(query.message))) {
            return Outcome::kChanged;
        }
        tell_malformed();
        dropped_ += keep_malformed_ ? 0U : 1U;
        return keep_malformed_ ? Outcome::kChanged : Outcome::kDropped;
    }

    // Client subnets may hide where this rule does not look: in OPT records at other places, in
    // bytes that no count of the header covers, in whatever cannot be parsed. A server may find
    // them there.
    /// False where not all of the message is known to be free of addresses.
    bool change_message(std::span<std::uint8_t> message) {
        const MessageLayout layout = parse_layout(message);
        if (!layout.whole) {
            return false;
        }
        if (layout.asks) {
            look_at_name(message.subspan(kDnsHeaderSize, layout.name_end - kDnsHeaderSize));
        }
        bool good = !layout.stray_opt && layout.end == message.size();
        if (layout.opt != 0) {
            const size_t begin = layout.opt + kOptSize;
            good = change_options(message.subspan(begin, layout.opt_end - begin)) && good;
        }
        return good;
    }

    /// False where the options do not fill their record exactly; what can be found is changed.
    bool change_options(std::span<std::uint8_t> options) {
        bool exact = true;
        while (options.size() >= 4) {
            exact = load16(&options[2]) <= options.size() - 4;
            const size_t size = std::min<size_t>(load16(&options[2]), options.size() - 4);
            if (load16(&options[0]) == kOptionSubnet) {
                change_subnet(options.subspan(4, size));
            }
            options = options.subspan(4 + size);
        }
        return exact && options.empty();
    }

    // Of the option's bits behind its source prefix length, and of all where the family is not
    // known, nothing stays.
    void change_subnet(std::span<std::uint8_t> option) {
        const std::uint16_t family =
            option.size() < kEcsFixed ? std::uint16_t{0} : load16(&option[0]);
        const std::span<std::uint8_t> bytes = option.subspan(std::min(kEcsFixed, option.size()));
        IpAddress address{.bytes = {},
                          .family = family == 1   ? std::uint8_t{4}
                                    : family == 2 ? std::uint8_t{6}
                                                  : std::uint8_t{0}};
        const size_t size = std::min(bytes.size(), address.size());
        const size_t bits = size == 0 ? 0 : std::min<size_t>(option[2], size * 8);
        std::copy_n(bytes.begin(), size, address.bytes.begin());
        const IpAddress mapped = masked(pan_.map(masked(address, bits)), bits);
        std::ranges::fill(bytes, std::uint8_t{0});
        std::copy_n(mapped.bytes.begin(), size, bytes.begin());
        const bool good = address.family != 0 && bytes.size() == (size_t{option[2]} + 7) / 8;
        ++(good ? subnets_ : bad_subnets_);
    }

    void look_at_name(Bytes name) {
        const bool reverse = std::ranges::any_of(
            reverse_, [&](const Name& suffix) { return ends_in(name, suffix.bytes()); });
        if (reverse && ++reverse_names_ == 1) {
            spdlog::warn(
                "event=names_not_anonymized note=\"names of reverse zones hold addresses and "
                "stay as they are: --drop where.name=in-addr.arpa,ip6.arpa leaves them out\"");
        }
    }

    void tell_malformed() {
        if (++malformed_ == 1) {
            spdlog::warn(
                "event=anonymize_malformed action={} note=\"messages that cannot be parsed "
                "whole may hold client subnets\"",
                keep_malformed_ ? "keep" : "drop");
        }
    }

    CryptoPan pan_;
    bool destination_;
    bool keep_malformed_; ///< whatever --malformed says: they may show client subnets
    std::array<Name, 2> reverse_;
    std::uint64_t& dropped_ = rare_count("dropped");
    std::uint64_t& malformed_ = rare_count("malformed");
    std::uint64_t& subnets_ = rare_count("ecs");
    std::uint64_t& bad_subnets_ = rare_count("ecs_malformed");
    std::uint64_t& reverse_names_ = rare_count("reverse_names");
};

} // namespace

std::vector<RuleKind> anonymize_rules() {
    return {{.name = "anonymize",
             .first_key = "key",
             .help = "Anonymizes sources and ECS options, keeping prefixes (Crypto-PAn with "
                     "AES-128): key=@FILE or key= 64 hex digits; destination=on: destinations too; "
                     "messages that cannot be parsed whole are dropped, malformed=keep keeps them; "
                     "share= is by source",
             .make = make<AnonymizeRule>,
             .effect = Effect::kSources,
             .older = "anonymise"}};
}

} // namespace reprise::rules
