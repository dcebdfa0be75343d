#include "mutator/synth/clients.hh"

#include "core/base/address.hh"
#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "mutator/synth/names.hh"
#include "mutator/synth/synth_options.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

std::vector<double> weights_of(const Mix& mix) {
    std::vector<double> weights(mix.size());
    std::ranges::transform(mix, weights.begin(), &WeightedNumber::weight);
    return weights;
}

/// A bijection of the numbers below 2^bits that keeps 0: multiplication by an odd number.
std::uint64_t spread(std::uint64_t number, std::uint64_t mask) {
    return (number * kGoldenStep) & mask;
}

/// Host part of client number `client`, neither all zeros nor all ones.
std::uint64_t host_part(std::uint32_t client, unsigned bits) {
    const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    const std::uint64_t host = spread(std::uint64_t{client} + 1, mask);
    return host == mask ? spread(mask, mask) : host; // no client has number `mask`
}

std::vector<double> client_weights(const SynthOptions& options) {
    return zipf_weights(options.clients, options.zipf, options.zipf_shift);
}

constexpr std::uint64_t kFirstPort = 1024;
constexpr std::uint64_t kLastPort = 65'535;

/// Ports of a kind of client: queries in a hundred, and the range.
struct PortRange {
    std::uint64_t percent;
    std::uint64_t first;
    std::uint64_t last;
};

/// As the queries of the real minute have them: resolvers that draw from all ports, systems that
/// draw from their own range.
constexpr std::array<PortRange, 3> kRanges{
    {{70, kFirstPort, kLastPort}, {22, 32'768, 60'999}, {8, 49'152, kLastPort}}};
constexpr std::uint64_t kFewPercent = 18; ///< of the clients keep to a few ports
constexpr std::uint64_t kFewPorts = 16;

/// The same number for a client in every trace.
std::uint64_t trait(std::uint32_t client) {
    return mix_bits((std::uint64_t{client} + 1) * kGoldenStep);
}

const PortRange& range_of(std::uint64_t percent) {
    size_t kind = 0;
    while (kind + 1 < kRanges.size() && percent >= kRanges[kind].percent) {
        percent -= kRanges[kind].percent;
        ++kind;
    }
    return kRanges[kind];
}

std::uint64_t mixed_port(std::uint64_t trait, Random& random) {
    const PortRange& range = range_of(trait % 100);
    const std::uint64_t size = range.last - range.first + 1;
    if (trait / 100 % 100 >= kFewPercent) {
        return range.first + random.below(size);
    }
    return range.first + (trait / 10'000 + random.below(kFewPorts)) % size;
}

} // namespace

std::uint16_t Clients::next_port(std::uint16_t port) {
    return static_cast<std::uint16_t>(port == kLastPort ? kFirstPort : port + 1U);
}

std::uint16_t Clients::port(std::uint32_t client, Random& random) const {
    return static_cast<std::uint16_t>(ports_ == PortStyle::kRandom
                                          ? random.between(kFirstPort, kLastPort)
                                          : mixed_port(trait(client), random));
}

Clients::Clients(const SynthSettings& settings)
    : ports_(settings.options.ports), prefix4_(settings.clients4), prefix6_(settings.clients6),
      activity_(client_weights(settings.options)) {
    make_habits(settings);
    deal(client_weights(settings.options));
}

void Clients::make_habits(const SynthSettings& settings) {
    const SynthOptions& options = settings.options;
    const std::vector<double> weights = weights_of(settings.edns_sizes);
    const double sizes = std::accumulate(weights.begin(), weights.end(), 0.0);
    const auto add = [this](const ClientHabit& habit, double share) {
        if (share > 0) {
            habits_.push_back(habit);
            shares_.push_back(share);
        }
    };
    for (const bool ipv6 : {false, true}) {
        const double family = ipv6 ? options.ipv6_share : 1 - options.ipv6_share;
        add({.ipv6 = ipv6}, family * (1 - options.edns_share));
        for (const WeightedNumber& size : settings.edns_sizes) {
            const double share = family * options.edns_share * size.weight / sizes;
            const double secure = share * options.do_share;
            add({ipv6, true, true, size.value, false}, secure * (1 - options.cd_share));
            add({ipv6, true, true, size.value, true}, secure * options.cd_share);
            add({ipv6, true, false, size.value, false}, share * (1 - options.do_share));
        }
    }
}

void Clients::deal(const std::vector<double>& weights) {
    std::vector<double> lack(habits_.size(), 0);
    kinds_.reserve(weights.size());
    for (const double weight : weights) {
        for (size_t i = 0; i < lack.size(); ++i) {
            lack[i] += shares_[i] * weight;
        }
        const auto most = std::ranges::max_element(lack);
        *most -= weight;
        kinds_.push_back(static_cast<std::uint16_t>(most - lack.begin()));
    }
}

IpAddress Clients::address(std::uint32_t client) const {
    const Prefix& prefix = habit(client).ipv6 ? prefix6_ : prefix4_;
    return prefix.host(host_part(client, prefix.free_bits())).value_or(prefix.address);
}

namespace {

/// Every name once, below one domain: what LDplayer's syn-0 to syn-4 ask.
MakeName unique_names(const SynthSettings& settings) {
    return [domain = settings.unique_below, number = std::uint64_t{0},
            label = std::string()](std::uint32_t /*client*/, std::uint16_t /*type*/,
                                   Random& /*random*/, Name& out) mutable {
        out.clear();
        label.clear();
        fmt::format_to(std::back_inserter(label), "u{:010}", number++);
        out.add_label(label);
        out.add(domain.labels());
        return false;
    };
}

/// Names of a list, the n-th n^-S times as often as the first, or to each client in their order.
MakeName listed_names(const SynthSettings& settings) {
    NameList names = load_names(settings.options.names);
    const WeightedChoice popularity(zipf_weights(names.size(), settings.options.names_zipf));
    std::vector<std::uint32_t> asked(settings.options.names_in_turn ? settings.options.clients : 0);
    return [names = std::move(names), popularity, asked = std::move(asked)](
               std::uint32_t client, std::uint16_t /*type*/, Random& random, Name& out) mutable {
        out.clear();
        out.add(bytes_of(
            names.wire(asked.empty() ? popularity.draw(random) : asked[client]++ % names.size())));
        return false;
    };
}

MakeName names_of(const SynthSettings& settings, std::vector<std::string> tlds) {
    switch (settings.names) {
    case NameKind::kList:
        return listed_names(settings);
    case NameKind::kUnique:
        return unique_names(settings);
    case NameKind::kRoot:
        return root_names(std::move(tlds), settings.types, settings.options.junk_share);
    case NameKind::kSimple:
        break;
    }
    return simple_names(std::move(tlds), settings.options.junk_share);
}

} // namespace

QueryMaker::QueryMaker(const SynthSettings& settings, std::vector<std::string> tlds)
    : mix_(settings.types), types_(weights_of(settings.types)),
      rd_share_(settings.options.rd_share), make_name_(names_of(settings, std::move(tlds))) {}

bool QueryMaker::make(std::uint32_t client, const ClientHabit& habit, Random& random,
                      std::vector<std::uint8_t>& out) {
    QueryShape shape{.checking_disabled = habit.checking_disabled,
                     .edns = habit.edns,
                     .dnssec_ok = habit.dnssec_ok,
                     .edns_size = habit.edns_size};
    shape.id = static_cast<std::uint16_t>(random.bits());
    shape.type = mix_[types_.draw(random)].value;
    shape.recursion_desired = random.chance(rd_share_);
    const bool junk = make_name_(client, shape.type, random, name_);
    name_.add_label({}); // the root's
    build_query(out, shape, name_.bytes());
    return junk;
}

bool needs_tlds(const SynthSettings& settings) {
    return settings.names == NameKind::kSimple || settings.names == NameKind::kRoot;
}

} // namespace reprise::mutator
