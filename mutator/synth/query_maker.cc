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
#include <memory>
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
class SimpleMaker : public QueryMaker {
public:
    SimpleMaker(const SynthSettings& settings, std::vector<std::string> tlds)
        : QueryMaker(settings), names_(std::move(tlds)), junk_share_(settings.options.junk_share) {}

private:
    bool make_name(std::uint32_t /*client*/, std::uint16_t type, Random& random,
                   Name& out) override {
        if (random.chance(junk_share_)) {
            names_.make_junk(type, random, out);
            return true;
        }
        names_.make(type, random, out);
        return false;
    }

    NameMaker names_;
    double junk_share_;
};

class RootMaker : public QueryMaker {
public:
    RootMaker(const SynthSettings& settings, std::vector<std::string> tlds)
        : QueryMaker(settings),
          names_(std::move(tlds), settings.types, settings.options.junk_share) {}

private:
    bool make_name(std::uint32_t /*client*/, std::uint16_t type, Random& random,
                   Name& out) override {
        return names_.make(type, random, out);
    }

    RootNames names_;
};

/// Every name once, below one domain: what LDplayer's syn-0 to syn-4 ask.
class UniqueMaker : public QueryMaker {
public:
    explicit UniqueMaker(const SynthSettings& settings)
        : QueryMaker(settings), domain_(settings.unique_below) {}

private:
    bool make_name(std::uint32_t /*client*/, std::uint16_t /*type*/, Random& /*random*/,
                   Name& out) override {
        out.clear();
        label_.clear();
        fmt::format_to(std::back_inserter(label_), "u{:010}", number_++);
        out.add_label(label_);
        out.add(domain_.labels());
        return false;
    }

    Name domain_;
    std::uint64_t number_ = 0;
    std::string label_;
};

/// Names of a list, the n-th n^-S times as often as the first, or to each client in their order.
class ListMaker : public QueryMaker {
public:
    explicit ListMaker(const SynthSettings& settings)
        : QueryMaker(settings), names_(load_names(settings.options.names)),
          popularity_(zipf_weights(names_.size(), settings.options.names_zipf)),
          asked_(settings.options.names_in_turn ? settings.options.clients : 0) {}

private:
    bool make_name(std::uint32_t client, std::uint16_t /*type*/, Random& random,
                   Name& out) override {
        out.clear();
        out.add(bytes_of(names_.wire(asked_.empty() ? popularity_.draw(random)
                                                    : asked_[client]++ % names_.size())));
        return false;
    }

    NameList names_;
    WeightedChoice popularity_;
    std::vector<std::uint32_t> asked_; ///< by client, where they ask in turn
};

} // namespace

QueryMaker::QueryMaker(const SynthSettings& settings)
    : mix_(settings.types), types_(weights_of(settings.types)),
      rd_share_(settings.options.rd_share) {}

bool QueryMaker::make(std::uint32_t client, const ClientHabit& habit, Random& random,
                      std::vector<std::uint8_t>& out) {
    QueryShape shape{.checking_disabled = habit.checking_disabled,
                     .edns = habit.edns,
                     .dnssec_ok = habit.dnssec_ok,
                     .edns_size = habit.edns_size};
    shape.id = static_cast<std::uint16_t>(random.bits());
    shape.type = mix_[types_.draw(random)].value;
    shape.recursion_desired = random.chance(rd_share_);
    const bool junk = make_name(client, shape.type, random, name_);
    name_.add_label({}); // the root's
    build_query(out, shape, name_.bytes());
    return junk;
}

std::unique_ptr<QueryMaker> make_query_maker(const SynthSettings& settings,
                                             std::vector<std::string> tlds) {
    switch (settings.names) {
    case NameKind::kList:
        return std::make_unique<ListMaker>(settings);
    case NameKind::kUnique:
        return std::make_unique<UniqueMaker>(settings);
    case NameKind::kRoot:
        return std::make_unique<RootMaker>(settings, std::move(tlds));
    case NameKind::kSimple:
        break;
    }
    return std::make_unique<SimpleMaker>(settings, std::move(tlds));
}

bool needs_tlds(const SynthSettings& settings) {
    return settings.names == NameKind::kSimple || settings.names == NameKind::kRoot;
}

} // namespace reprise::mutator
