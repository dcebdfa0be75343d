// Addresses of clients replaced prefix-preservingly: sources, those in ECS options and, where
// asked, destinations.

#include "core/base/error.hh"
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
#include <openssl/evp.h>
#include <openssl/types.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <ios>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise::rules {
namespace {

using Key = std::array<std::uint8_t, 32>; ///< 16 bytes AES key, 16 bytes pad

// Crypto-PAn: addresses replaced so that two share as many leading bits after as before.
// Xu, Fan, Ammar, Moon: Prefix-preserving IP address anonymization, ICNP 2002.
//
// Bit i of an address is flipped by one bit of AES-128 over the i bits before it, filled up with a
// secret pad. All blocks of an address are encrypted in one call, so AES instructions run at full
// width: an IPv4 address costs 32 blocks, an IPv6 one 128.

class CryptoPan {
public:
    /// Throws Error where OpenSSL has no AES-128.
    explicit CryptoPan(const Key& key) {
        if (!context_ || EVP_EncryptInit_ex(context_.get(), EVP_aes_128_ecb(), nullptr, key.data(),
                                            nullptr) != 1) {
            throw Error("OpenSSL has no AES-128; anonymize cannot work without it");
        }
        EVP_CIPHER_CTX_set_padding(context_.get(), 0);
        encrypt(key.data() + kBlock, pad_.data(), kBlock);
    }

    /// Of the same family; an address of no family is left as it is. Recent addresses come from a
    /// table of 1.1 MB.
    IpAddress map(const IpAddress& address) {
        if (address.family == 0) {
            return address;
        }
        Known& slot = known_[source_key(address, 0) % kKnown];
        if (slot.from != address) {
            slot = {.from = address, .to = compute(address)};
        }
        return slot.to;
    }

private:
    struct Known {
        IpAddress from;
        IpAddress to;
    };

    using Words = std::array<std::uint64_t, 2>; ///< 16 bytes as they lie in memory

    static constexpr size_t kBlock = 16;
    static constexpr size_t kMostBits = 128;
    static constexpr size_t kKnown = 1UL << 15U;

    IpAddress compute(const IpAddress& address) {
        const size_t bits = address.size() * 8;
        const auto original = std::bit_cast<Words>(address.bytes);
        auto block = std::bit_cast<Words>(pad_); // its first i bits are the address's
        for (size_t i = 0; i < bits; ++i) {
            std::memcpy(in_.data() + i * kBlock, block.data(), kBlock);
            const std::uint64_t bit = std::uint64_t{1} << (i / 8 % 8 * 8 + 7 - i % 8);
            block.at(i / 64) = (block.at(i / 64) & ~bit) | (original.at(i / 64) & bit);
        }
        encrypt(in_.data(), out_.data(), bits * kBlock);
        IpAddress result = address;
        for (size_t i = 0; i < bits; ++i) {
            result.bytes.at(i / 8) ^=
                static_cast<std::uint8_t>((out_.at(i * kBlock) & 0x80U) >> i % 8);
        }
        return result;
    }

    void encrypt(const std::uint8_t* in, std::uint8_t* out, size_t size) {
        int written = 0;
        if (EVP_EncryptUpdate(context_.get(), out, &written, in, static_cast<int>(size)) != 1) {
            throw Error("AES-128 of OpenSSL failed");
        }
    }

    std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_{EVP_CIPHER_CTX_new(),
                                                                             &EVP_CIPHER_CTX_free};
    std::array<std::uint8_t, kBlock> pad_{};                ///< encrypted
    std::vector<Known> known_ = std::vector<Known>(kKnown); ///< direct-mapped
    std::array<std::uint8_t, kBlock * kMostBits> in_{};
    std::array<std::uint8_t, kBlock * kMostBits> out_{};
};

constexpr size_t kEcsFixed = 4; ///< family, source and scope prefix lengths
constexpr size_t kMostKeyFile = 4096;

/// 64 hex digits, spaces around them allowed.
std::optional<Key> parse_key(std::string_view text) {
    const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    const size_t last = text.find_last_not_of(" \t\r\n") + 1;
    text = text.substr(first, std::max(first, last) - first);
    Key key{};
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
Key read_key(Arguments& arguments) {
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
