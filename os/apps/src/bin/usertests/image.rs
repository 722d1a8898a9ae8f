//! Tests of the shared scheduler's image, as a program sees it.
use corank_abi::auxiliary;
use corank_abi::page::PAGE_SIZE;
use corank_abi::vdso::{SYMBOL, VERSION};
use corank_image::{NotFound, find};
use corank_user::entry::auxiliary;
use corank_user::vdso::image;

use crate::support::{BAD_ADDRESS, expect_end, tests};

tests![
    the_auxiliary_vector_is_there,
    the_image_has_the_symbol_in_its_version_alone,
    no_page_of_the_image_is_writable,
];

fn the_auxiliary_vector_is_there() {
    assert_eq!(auxiliary(auxiliary::PAGE_SIZE), Some(PAGE_SIZE));
    let header = auxiliary(auxiliary::SYSINFO_EHDR).expect("an image");
    assert_eq!(image().expect("an image").as_ptr().addr(), header);
    assert_eq!(auxiliary(4711), None);
}

fn the_image_has_the_symbol_in_its_version_alone() {
    let image = image().expect("an image");
    assert!(find(image, SYMBOL, VERSION).is_ok());
    assert_eq!(find(image, SYMBOL, "corank_0"), Err(NotFound::OtherVersion));
    assert_eq!(find(image, "corank", VERSION), Err(NotFound::NoSymbol));
}

fn no_page_of_the_image_is_writable() {
    for page in image().expect("an image").chunks(PAGE_SIZE) {
        let start = page.as_ptr().cast_mut();
        // SAFETY: the write is what the kernel has to refuse.
        expect_end(BAD_ADDRESS, || unsafe { start.write_volatile(0) });
    }
}
