// RUN: gathernest-opt %s -p "parallelize-loops{loops=a}" --verify-diagnostics --split-input-file

// expected-error@unknown {{cannot prove that iterations of a are independent: no dimension is subscripted in every store}}
func.func @gather(%out: memref<6x4xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    memref.store %x, %out[%i, %c0] : memref<6x4xi32>
    memref.store %x, %out[%c0, %i] : memref<6x4xi32>
  }
  func.return
}

// -----

// Tiles that end at n overlap.
// expected-error@unknown {{cannot prove that iterations of a are independent: no dimension is subscripted in every store}}
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop a(%t) = %c0 to %n step %c2 {
    gather.loop b(%i) = %t to %n step %c1 {
      memref.store %x, %out[%i] : memref<6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{cannot prove that iterations of a are independent: memref.load may read an element that another iteration writes}}
func.func @gather(%out: memref<6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c1 to %n step %c1 {
    %p = arith.subi %i, %c1 : index
    %x = memref.load %out[%p] : memref<6xi32>
    memref.store %x, %out[%i] : memref<6xi32>
  }
  func.return
}

// -----

// Tiles that are longer than the step overlap.
// expected-error@unknown {{cannot prove that iterations of a are independent: no dimension is subscripted in every store}}
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  gather.loop a(%t) = %c0 to %n step %c2 {
    %limit = arith.addi %t, %c4 : index
    %end = arith.minsi %limit, %n : index
    gather.loop b(%i) = %t to %end step %c1 {
      memref.store %x, %out[%i] : memref<6xi32>
    }
  }
  func.return
}

// -----

// Vectors that begin one element behind each other overlap.
// expected-error@unknown {{cannot prove that iterations of a are independent: no dimension is subscripted in every store}}
func.func @gather(%out: memref<8xi32>, %x: vector<2xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    vector.store %x, %out[%i] : memref<8xi32>, vector<2xi32>
  }
  func.return
}

// -----

// A vector reads what the iteration before writes.
// expected-error@unknown {{cannot prove that iterations of a are independent: vector.load may read an element that another iteration writes}}
func.func @gather(%out: memref<9x8xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c1 to %n step %c1 {
    %p = arith.subi %i, %c1 : index
    %x = vector.load %out[%p, %c0] : memref<9x8xi32>, vector<4xi32>
    vector.store %x, %out[%i, %c0] : memref<9x8xi32>, vector<4xi32>
  }
  func.return
}

// -----

// One buffer for all iterations.
// expected-error@unknown {{cannot prove that iterations of a are independent: no dimension is subscripted in every store}}
func.func @gather(%x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %buffer = memref.alloca() : memref<4xi32>
  gather.loop a(%i) = %c0 to %n step %c1 {
    memref.store %x, %buffer[%c0] : memref<4xi32>
  }
  func.return
}
