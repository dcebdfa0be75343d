#include "controller/lookahead.hh"

#include "core/trace/reader.hh"

namespace reprise::controller {

/// Reads one more; false at the end.
bool Lookahead::fill() {
    Place& place = ring_.at((first_ + count_) % kAhead);
    if (!input_->next(place.message)) {
        ended_ = true;
        return false;
    }
    place.bytes.assign(place.message.bytes.begin(), place.message.bytes.end());
    place.message.bytes = place.bytes;
    if (!place.message.response) {
        sources_->expect(place.message.source.address);
    }
    ++count_;
    return true;
}

bool Lookahead::next(trace::Message& message) {
    while (!ended_ && count_ < kAhead && fill()) {
    }
    if (count_ == 0) {
        return false;
    }
    message = ring_.at(first_).message;
    first_ = (first_ + 1) % kAhead;
    --count_;
    return true;
}

void Lookahead::restart() {
    input_->restart();
    count_ = 0;
    ended_ = false;
}

} // namespace reprise::controller
