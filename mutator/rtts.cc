#include "core/base/error.hh"
#include "core/base/flat_ids.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/commands.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

namespace {

/// Memory: about 100 bytes for each source.
class RttEncoder final : public trace::QueryEncoder {
public:
    void begin(std::string& out) override { out += "# source\trtt_ms\n"; }

    void encode(const Query& query, std::string& out) override {
        if (query.is_close()) {
            return;
        }
        ++queries_;
        if (query.rtt_class == 0) {
            ++without_;
            return;
        }
        const std::uint32_t source = sources_.add(query.source.address);
        if (source == classes_.size()) {
            classes_.push_back({.ms = query.rtt_class});
            fmt::format_to(std::back_inserter(out), "{}\t{}\n", query.source.address.text(),
                           query.rtt_class);
        }
        Class& known = classes_[source];
        known.conflicting = known.conflicting || known.ms != query.rtt_class;
    }

    void finish(std::string& /*out*/) override {
        if (classes_.empty()) {
            throw Error(fmt::format("none of the {} queries carries a round trip; give a trace of "
                                    "the text or stream form with the column rtt",
                                    queries_));
        }
        spdlog::info("work=mutate rtt_sources={} queries_without={}", classes_.size(), without_);
        const auto conflicting = std::ranges::count(classes_, true, &Class::conflicting);
        if (conflicting != 0) {
            spdlog::warn("work=mutate note=\"{} sources have several round trips; the first of "
                         "each counts\"",
                         conflicting);
        }
    }

private:
    struct Class {
        std::uint16_t ms = 0;
        bool conflicting = false; ///< queries of the source carry another
    };

    AddressTable sources_;
    std::vector<Class> classes_; ///< by number
    std::uint64_t queries_ = 0;
    std::uint64_t without_ = 0; ///< queries without a class
};

} // namespace

std::unique_ptr<trace::QueryEncoder> make_rtt_encoder() { return std::make_unique<RttEncoder>(); }

} // namespace reprise::mutator
