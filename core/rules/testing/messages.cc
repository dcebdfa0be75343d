#include "core/rules/testing/messages.hh"

#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/testing/rules.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules::testing {

MessageMaker::MessageMaker(std::uint16_t flags) {
    append16(bytes_, 0x1234);
    append16(bytes_, flags);
    bytes_.resize(12);
}

void MessageMaker::count(unsigned section) { ++bytes_[5 + 2 * section]; }

MessageMaker& MessageMaker::question(std::string_view name, std::uint16_t type) {
    const Name parsed = parse_name(name).value_or(Name());
    bytes_.insert(bytes_.end(), parsed.bytes().begin(), parsed.bytes().end());
    append16(bytes_, type);
    append16(bytes_, 1);
    count(0);
    return *this;
}

MessageMaker& MessageMaker::record(unsigned section, std::string_view owner, std::uint16_t type,
                                   std::string_view data) {
    raw(owner);
    append16(bytes_, type);
    append16(bytes_, 1);
    raw(std::string_view("\0\0\0\0", 4));
    append16(bytes_, static_cast<unsigned>(data.size()));
    raw(data);
    count(section);
    return *this;
}

MessageMaker& MessageMaker::opt(std::uint16_t size, bool dnssec_ok, std::string_view options) {
    raw(std::string_view("\0\0\x29", 3));
    append16(bytes_, size);
    raw(std::string_view("\0\0", 2));
    append16(bytes_, dnssec_ok ? 0x8000U : 0U);
    append16(bytes_, static_cast<unsigned>(options.size()));
    raw(options);
    count(3);
    return *this;
}

/// The key's name, hmac-sha256, time, fudge, a MAC of 4 bytes, id, error, other.
MessageMaker& MessageMaker::tsig() {
    constexpr std::string_view kData("\x0bhmac-sha256\0\0\0\0\0\0\0\1\x2c\0\4MACS\x12\x34\0\0\0\0",
                                     33);
    return record(3, std::string_view("\3key\0", 5), 250, kData);
}

MessageMaker& MessageMaker::raw(std::string_view bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
}

Octets plain(std::string_view name, std::uint16_t type) {
    return MessageMaker().question(name, type).bytes();
}

IpAddress source_of(std::uint32_t number) {
    const std::uint8_t bytes[4] = {198, 18, static_cast<std::uint8_t>(number >> 8U),
                                   static_cast<std::uint8_t>(number)};
    return IpAddress::v4(bytes);
}

std::vector<Octets> run(Rule& rule, const std::vector<Octets>& messages, size_t cut,
                        std::uint32_t sources) {
    std::vector<Octets> out;
    Batch batch;
    for (size_t i = 0; i < messages.size();) {
        for (const size_t end = std::min(i + cut, messages.size()); i < end; ++i) {
            Query query;
            query.time = static_cast<Nanoseconds>(i) * kMillisecond;
            query.source.address = source_of(static_cast<std::uint32_t>(i) % sources);
            query.message = batch.copy(messages[i]);
            batch.queries.push_back(query);
        }
        rule.apply(batch);
        for (const Query& query : batch.queries) {
            out.emplace_back(query.message.begin(), query.message.end());
        }
        batch.clear();
    }
    return out;
}

Octets changed(const std::string& kind, const std::string& value, const Octets& message) {
    const auto rule = make_rule(kind, value);
    return run(*rule, {message}).at(0);
}

std::string shown(const Octets& message) {
    const auto question = parse_question(message);
    std::string out =
        question ? fmt::format("{} {}", name_text(question->name), question->type) : "none";
    if (const auto edns = parse_edns(message)) {
        out += fmt::format(" edns={}{} v{}", edns->udp_size, edns->dnssec_ok ? " do" : "",
                           edns->version);
        out += edns->options.empty() ? "" : " ";
        for (const std::uint8_t byte : edns->options) {
            out += fmt::format("{:02x}", byte);
        }
    }
    return out;
}

namespace {

std::string drawn_name(Random& random) {
    std::string name;
    for (std::uint64_t labels = random.below(9); labels > 0; --labels) {
        for (std::uint64_t size = random.between(1, labels == 3 ? 63 : 12); size > 0; --size) {
            name += "abcdefghijXYZ0-_"[random.below(16)];
        }
        name += '.';
    }
    return name.empty() ? "." : name;
}

} // namespace

Octets drawn(std::uint64_t number) {
    Random random(number);
    MessageMaker maker(static_cast<std::uint16_t>(random.below(0x8000)));
    maker.question(drawn_name(random), static_cast<std::uint16_t>(random.between(1, 70)));
    if (random.chance(0.1)) { // as an IXFR query has it: the SOA's owner is the question's name
        maker.record(2, "\xc0\x0c", 6, std::string_view("\xc0\x0c\0........20 bytes....", 23));
    }
    if (random.chance(0.1)) {
        maker.record(3, std::string_view("\1x\0", 3), 16, "\4text");
    }
    if (random.chance(0.7)) {
        constexpr std::string_view kOptions("\0\x0a\0\x08"
                                            "8 bytes."
                                            "\0\3\0\0\xfd\xe9\0\1x",
                                            21);
        maker.opt(static_cast<std::uint16_t>(random.below(65536)), random.chance(0.5),
                  random.chance(0.3) ? kOptions : "");
    }
    if (random.chance(0.1)) {
        maker.tsig();
    }
    return maker.bytes();
}

std::vector<Octets> drawn_messages(size_t count) {
    std::vector<Octets> messages;
    messages.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        messages.push_back(drawn(i));
    }
    return messages;
}

} // namespace reprise::rules::testing
