// edns: the OPT record and its options.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/text.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/engine/values.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/message/message_rule.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

constexpr std::uint64_t kCookieUse = 0x636f6f6b; ///< of the seed; other than the selector's
constexpr std::uint64_t kSubnetUse = 0x737562;
constexpr std::uint64_t kMostBlock = 16'384; ///< TLS's record; RFC 8467 advises 128
constexpr size_t kCookieSize = 8;            ///< of a client's (RFC 7873)

const std::vector<std::string> kEdnsChanges{"size",   "do",  "version", "nsid",
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
class EdnsRule final : public MessageRule {
public:
    EdnsRule(Arguments& arguments, const RuleSettings& settings)
        : MessageRule(arguments, settings), set_(arguments.get_switch("set")),
          cookie_key_(mixed_seed(settings.seed, kCookieUse)),
          subnet_key_(mixed_seed(settings.seed, kSubnetUse)) {
        read_fields(arguments);
        read_nsid(arguments);
        read_cookies(arguments);
        read_subnets(arguments);
        read_padding(arguments);
        check(arguments);
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
    }

    void read_nsid(Arguments& arguments) {
        if (const auto on = arguments.get_switch("nsid")) {
            want(kOptionNsid, !*on);
        }
    }

    void read_cookies(Arguments& arguments) {
        const auto text = arguments.get_text("cookie");
        if (!text) {
            return;
        }
        random_cookie_ = *text == "random";
        if (random_cookie_) {
            cookie_.resize(kCookieSize);
        } else if (*text != "off") {
            cookie_ = read_cookie(arguments, *text);
        }
        want(kOptionCookie, cookie_.empty(), cookie_);
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
        const auto key = std::ranges::find_if(
            kEdnsChanges, [&](const auto& name) { return arguments.has(name); });
        if (key == kEdnsChanges.end() && !set_) {
            arguments.fail_lacking("nothing to set; give set=on|off, or size=1232, do=on, ...");
        }
        if (key != kEdnsChanges.end() && set_ == false) {
            arguments.fail(*key, "contradicts set=off, which leaves no OPT record to hold it");
        }
    }

    void want(std::uint16_t code, bool remove, Bytes value = {}) {
        change_.options.push_back({code, remove, value});
        adds_ = adds_ || !remove;
    }

    /// The options that a source chooses: its cookie and its subnet never change.
    void fill(const IpAddress& source) {
        if (random_cookie_) {
            const std::uint64_t cookie = source_key(source, cookie_key_);
            std::memcpy(cookie_.data(), &cookie, kCookieSize); // where the option's value points
        }
        if (subnets_.size() > 1) {
            const size_t draw = source_key(source, subnet_key_) % subnets_.size();
            option(kOptionSubnet).value = subnets_[draw];
        }
    }

    OptionChange& option(std::uint16_t code) {
        return *std::ranges::find(change_.options, code, &OptionChange::code);
    }

    Edit edit(Query& query, const MessageLayout& layout, Batch& batch) override {
        if (set_ == false) {
            return remove_opt(batch, query.message, layout);
        }
        if (layout.whole && layout.opt == 0 && !adds_) {
            return Edit::kUnchanged;
        }
        fill(query.source.address);
        return editor_.apply(batch, query.message, layout, change_);
    }

    std::optional<bool> set_;
    bool adds_ = false; ///< an OPT record to queries without
    OptChange change_;
    bool random_cookie_ = false;
    OptionBytes cookie_;
    std::vector<OptionBytes> subnets_;
    std::uint64_t cookie_key_;
    std::uint64_t subnet_key_;
    OptEditor editor_;
};

} // namespace

RuleKind edns_kind() {
    return {.name = "edns",
            .first_key = "set",
            .help = "EDNS: set=on|off (the OPT record), size=BYTES, do=on|off, version=N, "
                    "nsid=on|off, cookie=random|HEX|off, ecs=PREFIX,...|off (several: drawn by "
                    "source), padding=BLOCK|off; what is set adds OPT where there is none",
            .make = make<EdnsRule>,
            .sets = {"size", "do", "version", "nsid", "cookie", "ecs", "padding"}};
}

} // namespace reprise::rules
