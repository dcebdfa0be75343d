#include "controller/source_table.hh"

#include "controller/flat_ids.hh"
#include "core/address.hh"
#include "core/error.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace reprise::controller {

namespace {

template <size_t Size> typename FlatIds<Size>::Key key_of(const IpAddress& address) {
    typename FlatIds<Size>::Key key;
    std::copy_n(address.bytes.begin(), Size, key.begin());
    return key;
}

} // namespace

SourceTable::SourceTable(const std::string& path) : path_(path), file_(path) {
    file_ << "id,address\n";
    if (!file_) {
        throw SystemError("create " + path);
    }
}

template <size_t Size>
std::uint32_t SourceTable::find(FlatIds<Size>& ids, const IpAddress& address) {
    const auto [id, fresh] =
        ids.find_or_add(key_of<Size>(address), static_cast<std::uint32_t>(size()));
    if (fresh) {
        file_ << id << ',' << address.text() << '\n';
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
    }
    if (!file_) {
        throw SystemError("write " + path_);
    }
}

} // namespace reprise::controller
