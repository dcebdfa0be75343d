#include "controller/generator.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::controller {
namespace {

constexpr std::uint64_t kIds = 65'536;
constexpr std::uint16_t kFirstPort = 1'024;
constexpr std::uint64_t kPorts = 64'000;

std::optional<std::uint16_t> parse_type(std::string_view text) {
    const auto type = type_number(text);
    return type ? type : parse_number<std::uint16_t>(text);
}

} // namespace

std::optional<Question> Question::parse(std::string_view text) {
    const size_t slash = text.rfind('/');
    const auto name = parse_name(text.substr(0, slash));
    const auto type = parse_type(slash == std::string_view::npos ? "A" : text.substr(slash + 1));
    if (!name || !type) {
        return std::nullopt;
    }
    return Question{.name = *name, .type = *type, .text = std::string(text)};
}

Generator::Generator(const Question& question, std::uint32_t sources, const Endpoint& server,
                     double rate, bool recursion_desired)
    : text_(question.text), sources_(sources), server_(server),
      clients_(known_prefix(server.address.is_v4() ? "10.0.0.0/8" : "2001:db8::/32")), rate_(rate) {
    build_query(message_, {.type = question.type, .recursion_desired = recursion_desired},
                question.name.bytes());
}

void Generator::next(Query& query) {
    const std::uint64_t turn = next_ / sources_;
    store16(message_.data(), turn);
    query.time = rate_ > 0 ? std::llround(static_cast<double>(next_) * 1e9 / rate_) : 0;
    query.source.address = clients_.host(1 + next_ % sources_).value_or(IpAddress{});
    query.source.port = static_cast<std::uint16_t>(kFirstPort + turn / kIds % kPorts);
    query.destination = server_;
    query.transport = Transport::kUdp;
    query.connection = 0;
    query.message = message_;
    ++next_;
}

} // namespace reprise::controller
