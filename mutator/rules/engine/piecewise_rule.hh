#pragma once
// Rules that make many queries out of one: what they emit comes in pieces of bounded size, so that
// memory does not grow with what the user asks for.

#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"

#include <cstddef>
#include <memory>
#include <vector>

namespace reprise::mutator {

/// Memory: a piece on its way, and a copy of the input that was not worked on when it was full.
class PiecewiseRule : public Rule {
public:
    static constexpr size_t kItems = 16'384;      ///< of a full piece
    static constexpr size_t kBytes = 16UL << 20U; ///< of messages in it

    void apply(Batch& batch) final;

    [[nodiscard]] bool has_more() const final { return at_ < incoming_.size(); }

    void apply_more(Batch& batch) final;

protected:
    /// Emits what becomes of the item by put() and pass(), each behind a look at full(). False
    /// where the piece was full before all was done: it is called again for the same item.
    virtual bool work(Item& item, Batch& batch) = 0;

    [[nodiscard]] bool full(const Batch& batch) const {
        return batch.items.size() >= kItems || bytes_ >= kBytes;
    }

    /// A new item, whose message is in the batch's memory.
    void put(const Item& item, Batch& batch);

    /// An item of the input.
    void pass(Item item, Batch& batch);

private:
    void fill(Batch& batch);
    void hold();

    std::vector<Item> incoming_; ///< a batch's items while it is filled anew
    size_t at_ = 0;              ///< the item at work
    std::unique_ptr<Batch>
        held_; ///< messages of `incoming_`, once their batch went on without them
    bool holds_ = false;
    size_t bytes_ = 0; ///< of messages in the present piece
};

} // namespace reprise::mutator
