#include "mutator/synth/query_maker.hh"

#include "core/base/bytes.hh"
#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/name_list.hh"
#include "mutator/synth/query_names.hh"
#include "mutator/synth/synth_options.hh"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

std::vector<double> weights_of(const Mix& mix) {
    std::vector<double> weights;
    weights.reserve(mix.size());
    for (const auto& item : mix) {
        weights.push_back(item.weight);
    }
    return weights;
}

/// Names as a root server may see them, of few kinds.
MakeName simple_names(const SynthSettings& settings, std::vector<std::string> tlds) {
    return [names = NameMaker(std::move(tlds)), junk = settings.options.junk_share](
               std::uint32_t /*client*/, std::uint16_t type, Random& random, Name& out) mutable {
        if (random.chance(junk)) {
            names.make_junk(type, random, out);
            return true;
        }
        names.make(type, random, out);
        return false;
    };
}

MakeName root_names(const SynthSettings& settings, std::vector<std::string> tlds) {
    return [names = RootNames(std::move(tlds), settings.types, settings.options.junk_share)](
               std::uint32_t /*client*/, std::uint16_t type, Random& random, Name& out) mutable {
        return names.make(type, random, out);
    };
}

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
        return root_names(settings, std::move(tlds));
    case NameKind::kSimple:
        break;
    }
    return simple_names(settings, std::move(tlds));
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
