// Edits of messages: the first two bytes choose edits and a name, the rest is the message. Whatever
// it is, an edit must stay within it; where it was well formed, the result must be, and as asked.
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/message/message_editor.hh"
#include "core/trace/batch.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using namespace reprise::rules; // NOLINT(google-build-using-namespace)
using reprise::Batch;
using reprise::Bytes;

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

constexpr std::array<std::uint8_t, 8> kValue{1, 2, 3, 4, 5, 6, 7, 8};

OptChange change_of(unsigned choice) {
    OptChange change;
    if ((choice & 1U) != 0) {
        change.udp_size = 1400;
    }
    if ((choice & 2U) != 0) {
        change.dnssec_ok = (choice & 4U) != 0;
    }
    if ((choice & 8U) != 0) {
        change.options.push_back(
            {kOptionCookie, (choice & 16U) != 0, {kValue.begin(), kValue.end()}});
        change.options.push_back({kOptionNsid, (choice & 32U) != 0, {}});
    }
    if ((choice & 64U) != 0) {
        change.padding_block = 128;
    }
    return change;
}

/// Edits a copy; the bytes and the layout before are there to compare.
class Editing {
public:
    Editing(Bytes message, Batch& batch)
        : message_(message), layout_(parse_layout(message)), batch_(batch),
          edited_(batch.copy(message)) {}

    void opt(const OptChange& change) {
        std::vector<std::uint8_t> scratch;
        finish(set_opt(batch_, edited_, layout_, change, scratch));
        const auto edns = reprise::parse_edns(edited_);
        if (done_ == Edit::kChanged) {
            require(edns && edns->udp_size == change.udp_size.value_or(edns->udp_size));
            require(!change.padding_block || edited_.size() % change.padding_block == 0);
        }
    }

    void no_opt() {
        finish(remove_opt(batch_, edited_, layout_));
        require(done_ != Edit::kChanged || parse_layout(edited_).opt == 0);
    }

    void name(Bytes more) {
        reprise::Name name;
        name.add(more);
        name.add(question_name(message_, layout_));
        finish(set_name(batch_, edited_, layout_, name.bytes()));
        require(done_ != Edit::kChanged || edited_.size() == message_.size() + more.size());
    }

    void fields() {
        finish(set_type(edited_, layout_, 28));
        finish(set_flags(edited_, 0x7800, 0x2000));
    }

private:
    void finish(Edit done) {
        done_ = done;
        const MessageLayout after = parse_layout(edited_);
        require(edited_.size() <= 65'535 || edited_.size() == message_.size());
        require(after.whole == layout_.whole && after.is_signed == layout_.is_signed);
        require((after.name_end == 0) == (layout_.name_end == 0));
        if (done != Edit::kChanged) {
            require(edited_.size() == message_.size());
        }
    }

    Bytes message_;
    MessageLayout layout_;
    Batch& batch_;
    Bytes edited_;
    Edit done_ = Edit::kUnchanged;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (size < 2) {
        return 0;
    }
    const Bytes message(data + 2, size - 2);
    constexpr std::array<std::uint8_t, 5> kLabel{4, 't', 'e', 's', 't'};
    static Batch batch; // its memory is dear to make
    batch.clear();
    Editing(message, batch).opt(change_of(data[0]));
    Editing(message, batch).no_opt();
    Editing(message, batch).fields();
    Editing(message, batch).name(data[1] % 2 == 0 ? Bytes(kLabel) : Bytes());
    return 0;
}
