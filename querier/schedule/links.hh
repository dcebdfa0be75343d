#pragma once
// Doubly linked lists threaded through elements that live in an indexable store, so that a query
// can be in several orders at once (by key, by timeout, by connection) and leave each in constant
// time without an allocation.

#include <cstdint>

namespace reprise::querier {

/// "No element", for indices into stores.
inline constexpr std::uint32_t kNone = 0xffffffff;

struct Links {
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
};

/// `Member` is the Links of the element type this list runs through. The list owns nothing; an
/// element must be in at most one list of the same member.
template <auto Member> class IndexList {
public:
    [[nodiscard]] bool empty() const { return head_ == kNone; }

    /// First element, or kNone.
    [[nodiscard]] std::uint32_t front() const { return head_; }

    void push_back(auto& store, std::uint32_t index) {
        store[index].*Member = {.previous = tail_, .next = kNone};
        if (tail_ == kNone) {
            head_ = index;
        } else {
            (store[tail_].*Member).next = index;
        }
        tail_ = index;
    }

    void remove(auto& store, std::uint32_t index) {
        const Links links = store[index].*Member;
        if (links.previous == kNone) {
            head_ = links.next;
        } else {
            (store[links.previous].*Member).next = links.next;
        }
        if (links.next == kNone) {
            tail_ = links.previous;
        } else {
            (store[links.next].*Member).previous = links.previous;
        }
        store[index].*Member = {};
    }

    /// Element after `index`, or kNone.
    static std::uint32_t after(const auto& store, std::uint32_t index) {
        return (store[index].*Member).next;
    }

private:
    std::uint32_t head_ = kNone;
    std::uint32_t tail_ = kNone;
};

} // namespace reprise::querier
