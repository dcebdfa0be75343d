#include "querier/testing/simulation/server.hh"

#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"
#include "querier/testing/messages.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr std::uint8_t kTruncated = 0x02;
constexpr std::uint8_t kServerFailure = 2;

bool is_of_syn(Action action) {
    return action == Action::kRefuse || action == Action::kIgnore || action == Action::kReadNot;
}

std::string rcode_name(unsigned rcode) {
    constexpr std::array kNames{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN"};
    return rcode < kNames.size() ? kNames.at(rcode) : fmt::format("RCODE{}", rcode);
}

} // namespace

Rule Rules::take(const std::string& name, Transport transport, const std::string& address) {
    const auto fits = [&](const Rule& rule) {
        const bool of_syn = is_of_syn(rule.action) && rule.transport != Transport::kUdp;
        return rule.times > 0 && (!rule.transport || *rule.transport == transport) &&
               (rule.address.empty() || rule.address == address) && of_syn == (name == "SYN") &&
               (of_syn || rule.name == "*" || rule.name == name);
    };
    const auto found = std::ranges::find_if(rules_, fits);
    if (found == rules_.end()) {
        return {};
    }
    --found->times;
    return *found;
}

std::vector<std::uint8_t> answer_to(Bytes query, Action action) {
    switch (action) {
    case Action::kDrop:
    case Action::kHangUp:
    case Action::kReset:
        return {};
    case Action::kGarbage:
        return {'n', 'o', 't', ' ', 'D', 'N', 'S'};
    case Action::kServfail:
        return make_reply(query, kServerFailure);
    case Action::kStranger: {
        const auto other = make_message(parse_header(query).value_or(DnsHeader{}).id, "other.");
        return make_reply(other);
    }
    default: {
        auto reply = make_reply(query);
        reply[2] |= action == Action::kTruncate ? kTruncated : 0;
        reply.resize(reply.size() + (action == Action::kTrail ? 3 : 0));
        return reply;
    }
    }
}

std::string question_name(Bytes message) {
    const auto question = parse_question(message);
    return question ? name_text(question->name) : "?";
}

std::string describe(Bytes message) {
    const auto header = parse_header(message);
    if (!header) {
        return fmt::format("{} bytes", message.size());
    }
    std::string text = question_name(message);
    if (!header->is_response()) {
        return fmt::format("{} id {}", text, header->id);
    }
    return fmt::format("{} id {} {}{}", text, header->id, rcode_name(header->rcode()),
                       header->truncated() ? " TC" : "");
}

} // namespace reprise::querier::testing
