#include "tests/tree/roads.hh"

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace reprise::tests {

void Road::restore() {
    cut_ = false;
    for (auto& arrive : std::exchange(held_, {})) {
        carry(std::move(arrive));
    }
}

void Road::carry(std::function<void()> arrive) {
    if (cut_) {
        held_.push_back(std::move(arrive));
    } else {
        timeline_.in(one_way_, std::move(arrive));
    }
}

std::pair<std::shared_ptr<End>, std::shared_ptr<End>> End::pair(Road& road) {
    auto one = std::make_shared<End>(road);
    auto two = std::make_shared<End>(road);
    one->other_ = two;
    two->other_ = one;
    one->self_ = one;
    two->self_ = two;
    return {one, two};
}

void End::send(std::string bytes) {
    if (!open_) {
        return;
    }
    unsent_ += bytes.size();
    road_.carry([self = self_.lock(), other = other_, bytes = std::move(bytes)] {
        self->unsent_ -= bytes.size();
        if (other->open_ && other->handler_.bytes) {
            other->handler_.bytes(bytes);
        }
    });
}

void End::close() {
    if (std::exchange(open_, false)) {
        handler_ = {};
        road_.carry(
            [other = std::exchange(other_, nullptr)] { other->end("closed by the other side"); });
    }
}

void End::end(const std::string& because) {
    if (std::exchange(open_, false)) {
        other_.reset();
        if (const Handler handler = std::exchange(handler_, {}); handler.gone) {
            handler.gone(because);
        }
    }
}

Road& Roads::between(std::string a, std::string b) {
    if (a > b) {
        std::swap(a, b);
    }
    return roads_.try_emplace({std::move(a), std::move(b)}, timeline_).first->second;
}

} // namespace reprise::tests
