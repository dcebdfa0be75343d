#pragma once
// What the rules on messages share: what is counted, what happens to the malformed; and mixes.

#include "core/base/random.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/message/message_editor.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise::rules {

/// Counts besides the usual ones, where not zero: "malformed", "no_question", "too_long" and
/// "compressed" are queries kept as they were (Edit says why); "dropped" of "malformed" went with
/// RuleSettings::drop_malformed; "signed" were changed though their TSIG or SIG(0) no longer holds.
class MessageRule : public Rule {
protected:
    /// Takes the selector's keys from `arguments`.
    MessageRule(Arguments& arguments, const RuleSettings& settings);

    /// Edits the message of a query that the selector took. Queries come in order.
    virtual Edit edit(Query& query, const MessageLayout& layout, Batch& batch) = 0;

private:
    Outcome change(Query& query, Batch& batch) final;

    bool drop_malformed_;
    std::uint64_t& malformed_ = rare_count("malformed");
    std::uint64_t& no_question_ = rare_count("no_question");
    std::uint64_t& too_long_ = rare_count("too_long");
    std::uint64_t& compressed_ = rare_count("compressed");
    std::uint64_t& signed_ = rare_count("signed");
    std::uint64_t& dropped_ = rare_count("dropped");
};

/// Picks values by their weights, evenly: at every point each value was picked its share of the
/// time, within 16 picks. Random draws would be off by the square root of their number.
///
/// Every step gives each value its weight as credit and draws the one with most, which pays one.
/// What is drawn goes into a small pool from which values are picked at random: else the order
/// would repeat itself and could keep step with the trace, where clients ask for A and AAAA in
/// turn.
class WeightedPicker {
public:
    /// At least one; not negative, with a positive sum.
    WeightedPicker(const std::vector<double>& weights, std::uint64_t seed)
        : shares_(weights), credit_(weights.size()), random_(seed) {
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (double& share : shares_) {
            share /= sum;
        }
        std::ranges::generate(pool_, [this] { return draw(); });
    }

    /// Index of the next value.
    size_t pick() { return std::exchange(pool_[random_.bits() % pool_.size()], draw()); }

private:
    size_t draw() {
        for (size_t i = 0; i < shares_.size(); ++i) {
            credit_[i] += shares_[i];
        }
        const auto most = std::ranges::max_element(credit_);
        *most -= 1;
        return static_cast<size_t>(most - credit_.begin());
    }

    std::vector<double> shares_; ///< sum 1
    std::vector<double> credit_;
    std::array<size_t, 16> pool_{};
    Random random_;
};

} // namespace reprise::rules
