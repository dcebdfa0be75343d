#include "controller/source_table.hh"

#include "core/base/address.hh"
#include "core/base/flat_ids.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

namespace reprise::controller {

namespace {

constexpr std::uint64_t kRoom = 256UL << 10U; ///< a full buffer

template <size_t Size> typename FlatIds<Size>::Key key_of(const IpAddress& address) {
    typename FlatIds<Size>::Key key;
    std::copy_n(address.bytes.begin(), Size, key.begin());
    return key;
}

} // namespace

SourceTable::SourceTable(const std::string& path) : file_(path, AppendFile::Existing::kReplace) {
    file_.append("id,address\n");
    file_.flush();
}

template <size_t Size>
std::uint32_t SourceTable::find(FlatIds<Size>& ids, const IpAddress& address) {
    const auto [id, fresh] =
        ids.find_or_add(key_of<Size>(address), static_cast<std::uint32_t>(size()));
    if (fresh) {
        line_.clear();
        fmt::format_to(std::back_inserter(line_), "{},{}\n", id, address.text());
        file_.append(line_);
    }
    return id;
}

std::uint32_t SourceTable::id_of(const IpAddress& address) {
    return address.is_v4() ? find(v4_, address) : find(v6_, address);
}

void SourceTable::expect(const IpAddress& address) const {
    if (address.is_v4()) {
        v4_.expect(key_of<4>(address));
    } else {
        v6_.expect(key_of<16>(address));
    }
}

void SourceTable::flush() {
    if (std::exchange(flushed_, size()) != size()) {
        file_.flush();
        file_.reserve(kRoom);
    }
}

} // namespace reprise::controller
